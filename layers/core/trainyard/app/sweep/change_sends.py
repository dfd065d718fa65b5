"""A cluster's change is sent to AWS."""

from __future__ import annotations

from trainyard.app.sweep.change_ends import (
    change_ended,
    changes_of,
    settle,
    to_step,
    with_spec,
    without_cluster,
)
from trainyard.domain.errors import BackendRejected, ConflictError
from trainyard.domain.records import Cluster, ClusterChange
from trainyard.ports import Ports

_ROLL_BACK_FAILED = (
    "The stack could not be changed back either. Continue the roll-back in CloudFormation, or "
    "delete the cluster once what it holds is exported."
)


def stop(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    seen = changes_of(ports, cluster).look(cluster)
    if seen is None:
        return without_cluster(ports, cluster)
    if seen.fleet == "stopped":
        if change.spec is None:
            return change_ended(ports, cluster, "done")
        return to_step(cluster, "sending")
    return _asked_fleet(ports, cluster, change, seen.said, running=False)


def send(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    """Before the call the record says so, with the moment of the change before this one."""
    assert change.spec is not None
    if change.sent_at is None:
        seen = changes_of(ports, cluster).look(cluster)
        if seen is None:
            return without_cluster(ports, cluster)
        return to_step(cluster, "sending", sent_at=ports.clock.now(), before=seen.updated)
    try:
        taken = changes_of(ports, cluster).apply(cluster, change.spec)
    except BackendRejected as refused:
        return settle(ports, cluster, change, "refused", refused.detail)
    except ConflictError as busy:
        return _sent_before(ports, cluster, change, busy)
    if not taken:
        return settle(ports, with_spec(cluster, change), change, "done")
    return to_step(cluster, "changing")


def _sent_before(
    ports: Ports, cluster: Cluster, change: ClusterChange, busy: ConflictError
) -> Cluster:
    """The call went out, and the process died before it could say so; or another one is busy."""
    seen = changes_of(ports, cluster).look(cluster)
    if seen is not None and seen.updated != change.before:
        return to_step(cluster, "changing")
    return to_step(cluster, "sending", busy.detail)


def await_change(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    seen = changes_of(ports, cluster).look(cluster)
    if seen is None:
        return without_cluster(ports, cluster)
    if seen.state == "changing" or seen.updated == change.before:
        return to_step(cluster, "changing", f"AWS says {seen.said}.")
    if seen.state == "complete":
        return settle(ports, with_spec(cluster, change), change, "done")
    changes_of(ports, cluster).restore(cluster)
    reason = seen.reason or f"AWS says {seen.said}, and no reason."
    if seen.state == "failed":
        return settle(ports, cluster, change, "failed", f"{reason} {_ROLL_BACK_FAILED}")
    return settle(ports, cluster, change, "rolled-back", reason)


def start(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    seen = changes_of(ports, cluster).look(cluster)
    if seen is None:
        return without_cluster(ports, cluster)
    if seen.fleet == "running":
        # Without an outcome the reason is only how it was when the start was asked for.
        reason = change.reason if change.outcome else ""
        return change_ended(ports, cluster, change.outcome or "done", reason)
    return _asked_fleet(ports, cluster, change, seen.said, running=True)


def _asked_fleet(
    ports: Ports, cluster: Cluster, change: ClusterChange, said: str, *, running: bool
) -> Cluster | None:
    """Ask for it as long as it is not so; the backend takes the same wish twice."""
    try:
        changes_of(ports, cluster).set_fleet(cluster, running=running)
    except (BackendRejected, ConflictError) as refused:
        said = refused.detail
    else:
        said = f"AWS says {said}."
    # What is already known of the outcome must not be lost for it.
    return None if change.outcome else to_step(cluster, change.state, said)
