"""Takes a change of a cluster as far as it can go now, one step after the other.

Each step is one call of the backend and one conditional write. The call may be repeated, so a crash
between the two changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trainyard.app.facts.waking import wake_run
from trainyard.app.runs.tell_price import note_price
from trainyard.app.sweep.change_begins import await_users, begin
from trainyard.app.sweep.change_ends import without_cluster
from trainyard.app.sweep.change_sends import await_change, send, start, stop
from trainyard.app.sweep.swept import Swept
from trainyard.domain.errors import ClusterNotFound
from trainyard.domain.records import Cluster, ClusterChange
from trainyard.ports import Ports
from trainyard_contracts.events import ClusterReady

#: More steps than any change takes without a wait for the backend.
MOST_STEPS = 10


def cluster_change(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """Each state that the change came to."""
    for _ in range(MOST_STEPS):
        change = cluster.change
        if change is None or change.over or cluster.status in ("Failed", "Deleting", "Deleted"):
            return
        after = _step(ports, cluster, change)
        if after is None or after == cluster:
            return
        cluster = ports.clusters.put(after)
        newest = cluster.change
        assert newest is not None
        if newest.state != change.state:
            yield Swept("cluster changed", cluster.name, _line(newest))
        elif newest.sent_at == change.sent_at:
            return  # the backend works on it
        if newest.over:  # who asked for it wants to use it: the idle time begins now
            ports.clusters.touch(cluster.name, used_at=ports.clock.now())
            note_price(ports, cluster, key=f"-{newest.asked_at:%Y%m%dT%H%M%S%f}")
        if newest.over and cluster.status == "Ready":
            for run in ports.runs.on_cluster(cluster.name):  # they waited until it was Ready
                wake_run(ports, run.id, ClusterReady)


def _step(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    """Whichever call finds it out: a cluster that is gone is no longer being changed."""
    try:
        return _STEPS[change.state](ports, cluster, change)
    except ClusterNotFound:
        return without_cluster(ports, cluster)


def _line(change: ClusterChange) -> str:
    return f"{change.state}: {change.reason}" if change.reason else change.state


_STEPS: Mapping[str, Callable[[Ports, Cluster, ClusterChange], Cluster | None]] = {
    "waiting": await_users,
    "begun": begin,
    "stopping": stop,
    "sending": send,
    "changing": await_change,
    "starting": start,
}
