"""Delete a cluster on request, never with the only copy of a checkpoint on it."""

from __future__ import annotations

from trainyard.app.clusters.cluster_tries import give_up
from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.filesystems.archives import may_be_tried_again
from trainyard.domain.errors import ClusterInUse, RecordUnreadable
from trainyard.domain.records import Cluster
from trainyard.domain.teardown import holds_nothing, users_of
from trainyard.ports import Ports

NEXT_STEP = (
    "Wait for people's jobs to end and export the runs with 'trainyard run export' "
    "(POST /v1/runs/{id}:export); or with --force (force=true) give up the jobs and what was not "
    "exported."
)


def delete_cluster(ports: Ports, name: str, *, force: bool = False) -> Cluster:
    """Start the teardown machine.

    `force` gives up what only the cluster holds, and people's jobs on it; never an active run.
    Raises ClusterNotFound, ClusterInUse (active runs, people's jobs, results that are not
    exported).
    """
    cluster = ports.clusters.get(name)
    if cluster.status == "Deleted":
        return cluster
    cluster = may_be_tried_again(ports, cluster)
    if force and not cluster.delete_forced:
        cluster = cluster.changed(delete_forced=True)
    reason = blocker_of(ports, cluster)
    if reason is not None:
        raise ClusterInUse(reason, next_step=_next_step(ports, cluster))
    if force:
        cluster = ports.clusters.put(cluster)
    cluster = give_up(ports, cluster)
    start_teardown(ports, cluster)
    return cluster


def _next_step(ports: Ports, cluster: Cluster) -> str:
    """An active run is never given up by force, so force is not advised for it."""
    runs = ports.runs.on_cluster(cluster.name)
    if users := users_of(runs, never_ready=holds_nothing(cluster)):
        each = "" if len(users) == 1 else ", and each other run"
        return f"Wait until it ends, or cancel it: trainyard run cancel {users[0]}{each}."
    if ports.runs.unreadable_on(cluster.name):
        return RecordUnreadable.next_step
    return NEXT_STEP
