"""A cluster's nodes: the backend's state, Slurm's state and the newest sample, joined."""

from __future__ import annotations

from datetime import timedelta

from trainyard.domain.records import Cluster, ClusterNode
from trainyard.ports import Ports
from trainyard_contracts.events import ClusterHeartbeat, NodeSample


def list_nodes(ports: Ports, cluster_name: str) -> list[ClusterNode]:
    """Raises ClusterNotFound."""
    cluster = ports.clusters.get(cluster_name)
    if cluster.arn is None or cluster.status == "Deleted":
        return []
    samples = _samples(newest_heartbeat(ports, cluster))
    return [_joined(node, samples.get(node.instance_id)) for node in ports.backend.nodes(cluster)]


def newest_heartbeat(ports: Ports, cluster: Cluster) -> ClusterHeartbeat | None:
    """The newest heartbeat of the last day."""
    beats = ports.clusters.heartbeats(cluster.name, since=ports.clock.now() - timedelta(days=1), limit=1)
    return beats[-1] if beats else None


def _samples(beat: ClusterHeartbeat | None) -> dict[str, NodeSample]:
    return {sample.instance_id: sample for sample in beat.nodes} if beat else {}


def _joined(node: ClusterNode, sample: NodeSample | None) -> ClusterNode:
    if sample is None:
        return node
    wire = sample.model_dump(mode="json", by_alias=True)
    update = {"name": sample.node, "agent": sample.agent, "scheduler": sample.scheduler, "sample": wire}
    return node.model_copy(update=update)
