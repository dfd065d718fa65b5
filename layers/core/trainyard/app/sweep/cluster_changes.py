"""Takes a change of a cluster as far as it can go now, one step after the other.

Each step is one call of the backend and one conditional write. The call may be repeated, so a crash
between the two changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainyard.app.clusters.cluster_use import used_by
from trainyard.app.facts.waking import wake_run
from trainyard.app.runs.tell_price import note_price
from trainyard.app.sweep.swept import Swept
from trainyard.domain.errors import BackendRejected, ClusterNotFound, ConflictError
from trainyard.domain.records import ChangeState, Cluster, ClusterChange
from trainyard.outside.changes import Changes
from trainyard.ports import Ports
from trainyard_contracts.events import ClusterReady

#: More steps than any change takes without a wait for the backend.
MOST_STEPS = 10
_ROLL_BACK_FAILED = (
    "The stack could not be changed back either. Continue the roll-back in CloudFormation, or "
    "delete the cluster once what it holds is exported."
)


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
        return _gone(ports, cluster)


def _line(change: ClusterChange) -> str:
    return f"{change.state}: {change.reason}" if change.reason else change.state


def _to(cluster: Cluster, state: ChangeState, reason: str = "", **update: Any) -> Cluster:
    """With its change in this state; `update` is of the change."""
    change = cluster.change
    assert change is not None
    return cluster.changed(change=change.changed(state=state, reason=reason[:1500], **update))


def _await_users(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    """Mark it Updating, so that no run begins on it any more; then look once more."""
    if (users := _users(ports, cluster, change)) is not None:
        return _used(ports, cluster, change, users)
    return _to(cluster.changed(status="Updating"), "begun")


def _users(ports: Ports, cluster: Cluster, change: ClusterChange) -> str | None:
    """Nobody uses a fleet that is stopped."""
    if change.was == "Stopped":
        return None
    return used_by(ports, cluster, forced=change.forced)


def _used(ports: Ports, cluster: Cluster, change: ClusterChange, users: str) -> Cluster:
    back = cluster.changed(status=change.was)
    if change.spec is not None and change.spec.waits_for_users:
        return _to(back, "waiting", f"It waits. {users}")
    return _to(back, "refused", users, ended_at=ports.clock.now())


def _begin(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    """A run that was there before the mark may have seen the cluster Ready."""
    if (users := _users(ports, cluster, change)) is not None:
        return _used(ports, cluster, change, users)
    if change.spec is None:
        return _to(cluster, "stopping" if change.fleet == "stopped" else "starting")
    try:
        plan = _changes(ports, cluster).plan(cluster, change.spec)
    except BackendRejected as refused:
        return _ended(ports, cluster, "refused", refused.detail)
    except ConflictError as busy:
        return _to(cluster, "begun", busy.detail)
    if plan.nothing:
        return _ended(ports, _with_spec(cluster, change), "done")
    stops = plan.stops_fleet and change.was == "Ready"
    return _to(cluster, "stopping" if stops else "sending", stops_fleet=stops)


def _stop(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    seen = _changes(ports, cluster).look(cluster)
    if seen is None:
        return _gone(ports, cluster)
    if seen.fleet == "stopped":
        if change.spec is None:
            return _ended(ports, cluster, "done")
        return _to(cluster, "sending")
    return _asked_fleet(ports, cluster, change, seen.said, running=False)


def _send(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    """Before the call the record says so, with the moment of the change before this one."""
    assert change.spec is not None
    if change.sent_at is None:
        seen = _changes(ports, cluster).look(cluster)
        if seen is None:
            return _gone(ports, cluster)
        return _to(cluster, "sending", sent_at=ports.clock.now(), before=seen.updated)
    try:
        taken = _changes(ports, cluster).apply(cluster, change.spec)
    except BackendRejected as refused:
        return _settled(ports, cluster, change, "refused", refused.detail)
    except ConflictError as busy:
        return _sent_before(ports, cluster, change, busy)
    if not taken:
        return _settled(ports, _with_spec(cluster, change), change, "done")
    return _to(cluster, "changing")


def _sent_before(
    ports: Ports, cluster: Cluster, change: ClusterChange, busy: ConflictError
) -> Cluster:
    """The call went out, and the process died before it could say so; or another one is busy."""
    seen = _changes(ports, cluster).look(cluster)
    if seen is not None and seen.updated != change.before:
        return _to(cluster, "changing")
    return _to(cluster, "sending", busy.detail)


def _await_change(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    seen = _changes(ports, cluster).look(cluster)
    if seen is None:
        return _gone(ports, cluster)
    if seen.state == "changing" or seen.updated == change.before:
        return _to(cluster, "changing", f"AWS says {seen.said}.")
    if seen.state == "complete":
        return _settled(ports, _with_spec(cluster, change), change, "done")
    _changes(ports, cluster).restore(cluster)
    reason = seen.reason or f"AWS says {seen.said}, and no reason."
    if seen.state == "failed":
        return _settled(ports, cluster, change, "failed", f"{reason} {_ROLL_BACK_FAILED}")
    return _settled(ports, cluster, change, "rolled-back", reason)


def _with_spec(cluster: Cluster, change: ClusterChange) -> Cluster:
    """The spec is a person's now, and no longer one of the ways in which the cluster was tried."""
    asked = cluster.asked or cluster.spec
    return cluster.changed(spec=change.spec, asked=asked, tries=[])


def _settled(
    ports: Ports, cluster: Cluster, change: ClusterChange, outcome: ChangeState, reason: str = ""
) -> Cluster:
    """Its outcome is known. A fleet that was stopped for it is started, whatever the outcome."""
    if change.stops_fleet:
        return _to(cluster, "starting", reason, outcome=outcome)
    return _ended(ports, cluster, outcome, reason)


def _start(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    seen = _changes(ports, cluster).look(cluster)
    if seen is None:
        return _gone(ports, cluster)
    if seen.fleet == "running":
        # Without an outcome the reason is only how it was when the start was asked for.
        reason = change.reason if change.outcome else ""
        return _ended(ports, cluster, change.outcome or "done", reason)
    return _asked_fleet(ports, cluster, change, seen.said, running=True)


def _asked_fleet(
    ports: Ports, cluster: Cluster, change: ClusterChange, said: str, *, running: bool
) -> Cluster | None:
    """Ask for it as long as it is not so; the backend takes the same wish twice."""
    try:
        _changes(ports, cluster).set_fleet(cluster, running=running)
    except (BackendRejected, ConflictError) as refused:
        said = refused.detail
    else:
        said = f"AWS says {said}."
    # What is already known of the outcome must not be lost for it.
    return None if change.outcome else _to(cluster, change.state, said)


def _ended(ports: Ports, cluster: Cluster, outcome: ChangeState, reason: str = "") -> Cluster:
    change = cluster.change
    assert change is not None
    status = "Stopped" if change.fleet == "stopped" else "Ready"
    return _to(cluster.changed(status=status), outcome, reason, ended_at=ports.clock.now())


def _gone(ports: Ports, cluster: Cluster) -> Cluster:
    """The sweep's other duties find out what became of a Ready cluster that is not there."""
    words = "AWS has no such cluster any more."
    return _to(cluster.changed(status="Ready"), "failed", words, ended_at=ports.clock.now())


def _changes(ports: Ports, cluster: Cluster) -> Changes:
    found = ports.backend(cluster).changes
    assert found is not None, cluster.backend  # else no change was stored
    return found


_STEPS: Mapping[str, Callable[[Ports, Cluster, ClusterChange], Cluster | None]] = {
    "waiting": _await_users,
    "begun": _begin,
    "stopping": _stop,
    "sending": _send,
    "changing": _await_change,
    "starting": _start,
}
