"""What happened since yesterday."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainyard.chat.approving import waiting_ones
from trainyard.domain.approval_records import Approval
from trainyard.domain.listing import Wanted
from trainyard.domain.records import TERMINAL, Cluster, Incident, Run
from trainyard.ports import Ports

#: Runs that ended which one digest looks at, the newest by their submission.
MOST_RUNS = 1000
#: A run that was submitted longer ago is not looked at. One life takes 60 days at most.
LOOKS_BACK = timedelta(days=75)
#: A cluster that was used within this is not called idle.
IDLE_AFTER = timedelta(hours=1)
_PAGE = 100


@dataclass(frozen=True)
class Recovered:
    """A run, and the faults after which it trained on."""

    run: Run
    incidents: list[Incident]


@dataclass(frozen=True)
class News:
    """Of the time from `since` to `until`; what waits and what is idle are so at `until`."""

    since: datetime
    until: datetime
    ended: list[Run]
    recovered: list[Recovered]
    waiting: list[Approval]
    idle: list[Cluster]
    #: There are more runs that ended than were looked at.
    more: bool

    @property
    def nothing(self) -> bool:
        return not (self.ended or self.recovered or self.waiting or self.idle)


def news_since(ports: Ports, since: datetime) -> News:
    """Up to now."""
    now = ports.clock.now()
    over, more = _over(ports, now)
    ended = [run for run in over if run.finished_at is not None and since <= run.finished_at < now]
    going = ports.runs.active()
    return News(
        since,
        now,
        sorted(ended, key=lambda run: (run.finished_at or now, run.id)),
        list(_recovered([*over, *going], since, now)),
        waiting_ones(ports),
        _idle(ports, going, now),
        more,
    )


def _over(ports: Ports, now: datetime) -> tuple[list[Run], bool]:
    """Runs that ended at any time, and whether there are more of them."""
    wanted, found = Wanted(statuses=TERMINAL, since=now - LOOKS_BACK), list[Run]()
    token: str | None = None
    for _ in range(MOST_RUNS // _PAGE):
        page = ports.runs.list(limit=_PAGE, token=token, wanted=wanted)
        found += page.items
        if (token := page.next_token) is None:
            break
    return found, token is not None


def _recovered(runs: Iterable[Run], since: datetime, now: datetime) -> Iterator[Recovered]:
    for run in runs:
        survived = [
            one
            for one in run.incidents
            if one.resumed_at is not None and since <= one.resumed_at < now
        ]
        if survived:
            yield Recovered(run, survived)


def _idle(ports: Ports, going: Iterable[Run], now: datetime) -> list[Cluster]:
    """Clusters of ours that cost money while no run goes on there."""
    used = {run.cluster_name for run in going}
    found = [
        cluster
        for cluster in ports.clusters.active()
        if cluster.status == "Ready"
        and cluster.adoption is None
        and not cluster.spec.nodes_come_with_jobs
        and cluster.name not in used
        and now - cluster.idle_since >= IDLE_AFTER
    ]
    return sorted(found, key=lambda cluster: (cluster.idle_since, cluster.name))
