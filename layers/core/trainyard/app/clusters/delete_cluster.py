"""Delete a cluster on request, never with the only copy of a checkpoint on it."""

from __future__ import annotations

from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.domain.errors import ClusterInUse
from trainyard.domain.records import Cluster
from trainyard.ports import Ports

NEXT_STEP = (
    "Wait for its runs and people's jobs to end, "
    "cancel or export the runs (POST /v1/runs/{id}:export); "
    "or with force=true (--force) give up the jobs and what was not exported."
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
    if force and not cluster.delete_forced:
        cluster = cluster.changed(delete_forced=True)
    reason = blocker_of(ports, cluster)
    if reason is not None:
        raise ClusterInUse(reason, next_step=NEXT_STEP)
    if force:
        cluster = ports.clusters.put(cluster)
    start_teardown(ports, cluster)
    return cluster
