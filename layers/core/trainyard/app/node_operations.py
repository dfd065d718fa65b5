"""Replace or reboot one node because a person asked for it."""

from __future__ import annotations

from trainyard.domain.errors import ConflictError, NodeNotFound
from trainyard.domain.records import Cluster, ClusterNode
from trainyard.ports import BatchResult, Ports


def replace_node(ports: Ports, cluster_name: str, instance_id: str) -> BatchResult:
    """Replace a worker node; its disks are lost. Raises ClusterNotFound, NodeNotFound, ConflictError."""
    cluster, node = _node(ports, cluster_name, instance_id)
    if node.role == "controller":
        raise ConflictError(
            f"{instance_id} is the controller of '{cluster_name}'; HyperPod does not replace controllers.",
            next_step="Reboot it, or make a new cluster.",
        )
    return ports.backend.replace(cluster.name, [instance_id])


def reboot_node(ports: Ports, cluster_name: str, instance_id: str) -> BatchResult:
    """Reboot a node; its disks stay. Raises ClusterNotFound, NodeNotFound, ConflictError."""
    cluster, _ = _node(ports, cluster_name, instance_id)
    return ports.backend.reboot(cluster.name, [instance_id])


def _node(ports: Ports, cluster_name: str, instance_id: str) -> tuple[Cluster, ClusterNode]:
    cluster = ports.clusters.get(cluster_name)
    if cluster.status not in ("InService", "Ready"):
        raise ConflictError(f"Cluster '{cluster_name}' is {cluster.status}; its nodes cannot be changed now.")
    for node in ports.backend.nodes(cluster):
        if node.instance_id == instance_id:
            return cluster, node
    raise NodeNotFound(f"Cluster '{cluster_name}' has no node {instance_id}.")
