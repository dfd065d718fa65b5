"""Delete a cluster on request, never with the only copy of a checkpoint on it."""

from __future__ import annotations

from trainyard.app.create_cluster import start_teardown
from trainyard.domain.errors import ClusterInUse
from trainyard.domain.records import Cluster
from trainyard.domain.teardown import blocker
from trainyard.ports import Ports


def delete_cluster(ports: Ports, name: str) -> Cluster:
    """Start the teardown machine. Raises ClusterNotFound, ClusterInUse (active runs, or checkpoints not exported)."""
    cluster = ports.clusters.get(name)
    if cluster.status == "Deleted":
        return cluster
    reason = blocker(cluster, ports.runs.on_cluster(name), ports.clusters.facts(name))
    if reason is not None:
        raise ClusterInUse(reason, next_step="Wait for its runs to end, cancel them, or export them with POST /v1/runs/{id}:export.")
    start_teardown(ports, cluster)
    return cluster
