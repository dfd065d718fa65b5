"""A cluster's change waits for its users, and begins."""

from __future__ import annotations

from trainyard.app.clusters.cluster_use import used_by
from trainyard.app.sweep.change_ends import change_ended, changes_of, to_step, with_spec
from trainyard.domain.errors import BackendRejected, ConflictError
from trainyard.domain.records import Cluster, ClusterChange
from trainyard.ports import Ports


def await_users(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    """Mark it Updating, so that no run begins on it any more; then look once more."""
    if (users := _users(ports, cluster, change)) is not None:
        return _used(ports, cluster, change, users)
    return to_step(cluster.changed(status="Updating"), "begun")


def _users(ports: Ports, cluster: Cluster, change: ClusterChange) -> str | None:
    """Nobody uses a fleet that is stopped."""
    if change.was == "Stopped":
        return None
    return used_by(ports, cluster, forced=change.forced)


def _used(ports: Ports, cluster: Cluster, change: ClusterChange, users: str) -> Cluster:
    back = cluster.changed(status=change.was)
    if change.spec is not None and change.spec.waits_for_users:
        return to_step(back, "waiting", f"It waits. {users}")
    return to_step(back, "refused", users, ended_at=ports.clock.now())


def begin(ports: Ports, cluster: Cluster, change: ClusterChange) -> Cluster | None:
    """A run that was there before the mark may have seen the cluster Ready."""
    if (users := _users(ports, cluster, change)) is not None:
        return _used(ports, cluster, change, users)
    if change.spec is None:
        return to_step(cluster, "stopping" if change.fleet == "stopped" else "starting")
    try:
        plan = changes_of(ports, cluster).plan(cluster, change.spec)
    except BackendRejected as refused:
        return change_ended(ports, cluster, "refused", refused.detail)
    except ConflictError as busy:
        return to_step(cluster, "begun", busy.detail)
    if plan.nothing:
        return change_ended(ports, with_spec(cluster, change), "done")
    stops = plan.stops_fleet and change.was == "Ready"
    return to_step(cluster, "stopping" if stops else "sending", stops_fleet=stops)
