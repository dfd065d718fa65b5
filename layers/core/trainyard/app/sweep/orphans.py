"""Clusters that carry our tag and that no living record accounts for.

The sweep deletes one that is proven to be ours and over, and reports the others to a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from trainyard.app.sweep.ask_backends import Unanswered, ask_each
from trainyard.domain import orphans
from trainyard.domain.errors import ClusterNotFound, RecordUnreadable, TrainyardError
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus
from trainyard.outside.seen_clusters import BackendCluster
from trainyard.ports import Ports

#: Heartbeats so old say nothing about now; at least this many of its intervals.
HEARD_SECONDS = 3600
HEARD_INTERVALS = 60
REMEDY = (
    "It is not deleted. If its records are lost, restore the table; "
    "if nobody needs it, look at its nodes, save what they hold, "
    "and delete it by hand (docs/operations.md, Clusters without a record)."
)


@dataclass(frozen=True)
class Suspect:
    """A cluster with our tag beside the records, and why it is kept.

    '' = it is proven to be an orphan.
    """

    seen: BackendCluster
    kept: str

    @property
    def name(self) -> str:
        return self.seen.name


def suspects(ports: Ports) -> Sequence[Suspect | Unanswered]:
    """Every cluster with our tag that no living record accounts for and that is old enough.

    Looks at each again, by its name.
    """
    answers = ask_each(ports, lambda backend: backend.tagged())
    tagged = [seen for seen in answers if not isinstance(seen, Unanswered)]
    failed = [seen for seen in answers if isinstance(seen, Unanswered)]
    known = {cluster.name: cluster.arn for cluster in ports.clusters.active()}
    unknown = [
        seen
        for seen in tagged
        if seen.name not in known or known[seen.name] not in (None, seen.arn)
    ]
    looks = [look for seen in unknown if (look := _look(ports, seen)) is not None]
    return [*_few(looks, len(tagged)), *failed]


def _look(ports: Ports, seen: BackendCluster) -> Suspect | Unanswered | None:
    """None for one that is too young, or accounted for after all."""
    try:
        if not _settled(ports, seen) or _accounted(ports, seen):
            return None
        return Suspect(seen, _kept_because(ports, seen))
    except TrainyardError as error:
        return Unanswered(seen.name, error)


def _settled(ports: Ports, seen: BackendCluster) -> bool:
    """Whether the cluster is so old that its record must be there, and still exists.

    We ask for it again, because AWS's list may be old.
    """
    if seen.created_at is None or ports.clock.now() - seen.created_at < timedelta(
        seconds=ports.config.orphan_seconds
    ):
        return False
    if seen.status == BackendStatus.DELETING:
        return False
    now = ports.backend(seen).describe(seen.name)
    return now is not None and now.arn == seen.arn and now.status != BackendStatus.DELETING


def _accounted(ports: Ports, seen: BackendCluster) -> bool:
    """Whether a living record, read by its name and not from an index, is this cluster's.

    One that this version cannot read may be.
    """
    try:
        record = _record(ports, seen.name)
    except RecordUnreadable:
        return True
    return record is not None and record.status != "Deleted" and record.arn in (None, seen.arn)


def _kept_because(ports: Ports, seen: BackendCluster) -> str:
    record = _record(ports, seen.name)
    unproven = orphans.kept_because(record, seen.arn, seen.tags)
    if unproven or record is None:
        return unproven
    runs, facts = ports.runs.on_cluster(seen.name), ports.clusters.facts(seen.name)
    unread = ports.runs.unreadable_on(seen.name)
    return orphans.still_needed(record, runs, facts, _heard(ports, seen), unread)


def _record(ports: Ports, name: str) -> Cluster | None:
    try:
        return ports.clusters.get(name)
    except ClusterNotFound:
        return None


def _heard(ports: Ports, seen: BackendCluster) -> bool:
    seconds = max(HEARD_SECONDS, HEARD_INTERVALS * ports.config.heartbeat_seconds)
    beats = ports.clusters.heartbeats(
        seen.name, since=ports.clock.now() - timedelta(seconds=seconds), limit=10
    )
    return any(beat.cluster_arn == seen.arn for beat in beats)


def _few(found: Sequence[Suspect | Unanswered], tagged: int) -> Sequence[Suspect | Unanswered]:
    """Each may be proven, but many at once are not believed: then none is deleted.

    One that could not be looked at may be the next that is proven.
    """
    proven = sum(isinstance(look, Unanswered) or not look.kept for look in found)
    if proven <= orphans.allowed(tagged):
        return found
    why = (
        f"{proven} of {tagged} clusters with our tag look like orphans at once, "
        "which is more likely wrong records than truth"
    )
    return [
        look if isinstance(look, Unanswered) or look.kept else replace(look, kept=why)
        for look in found
    ]
