"""Replace or reboot one node because a person asked for it."""

from __future__ import annotations

from typing import NamedTuple

from trainyard.domain.errors import NodeNotFound, WrongState
from trainyard.domain.records import Cluster, ClusterNode, TimelineEntry
from trainyard.domain.words import who
from trainyard.outside.seen_clusters import BatchResult
from trainyard.ports import Ports
from trainyard_contracts.people import Person


def replace_node(
    ports: Ports, cluster_name: str, instance_id: str, *, by: Person | None = None
) -> BatchResult:
    """Replace a worker node; its disks are lost.

    Raises ClusterNotFound, NodeNotFound, WrongState.
    """
    cluster, node = _node(ports, cluster_name, instance_id)
    _check_allowed(cluster)
    if node.role == "controller":
        raise WrongState(
            f"{instance_id} is the controller of '{cluster_name}'; "
            "AWS does not replace controllers.",
            next_step="Reboot it, or make a new cluster.",
        )
    result = ports.backend(cluster).replace(cluster.name, [instance_id])
    _tell(ports, cluster, node, result, _Asked("replace", "ReplaceRequested", by))
    return result


def reboot_node(
    ports: Ports, cluster_name: str, instance_id: str, *, by: Person | None = None
) -> BatchResult:
    """Reboot a node; its disks stay. Raises ClusterNotFound, NodeNotFound, WrongState."""
    cluster, node = _node(ports, cluster_name, instance_id)
    _check_allowed(cluster)
    result = ports.backend(cluster).reboot(cluster.name, [instance_id])
    _tell(ports, cluster, node, result, _Asked("reboot", "RebootRequested", by))
    return result


class _Asked(NamedTuple):
    verb: str
    type: str
    by: Person | None


def _check_allowed(cluster: Cluster) -> None:
    if cluster.adoption is not None and not cluster.adoption.replace_nodes:
        raise WrongState(
            f"Cluster '{cluster.name}' was made by others, and was adopted without the right to "
            "replace or reboot its nodes.",
            next_step="Ask its owners to do it; or release it, and adopt it with "
            "allow.replaceNodes.",
        )


def _tell(
    ports: Ports, cluster: Cluster, node: ClusterNode, result: BatchResult, asked: _Asked
) -> None:
    """Note in the timelines of the cluster's runs who asked for the loss of the node."""
    if node.instance_id in result.failed:
        return
    named = f"{node.name or node.instance_id} ({node.instance_id})"
    message = f"{who(asked.by)} asked AWS to {asked.verb} {named}."
    now, entry_id = ports.clock.now(), f"{asked.verb}-{ports.ids.ulid().lower()}"
    for run in ports.runs.on_cluster(cluster.name):
        used = (
            run.attempt is not None
            and run.attempt.ended_at is None
            and node.name in run.attempt.nodes
        )
        line = f"{message} The run's job uses it." if used else message
        ports.runs.note(
            run.id, TimelineEntry(id=entry_id, at=now, kind="fact", type=asked.type, message=line)
        )


def _node(ports: Ports, cluster_name: str, instance_id: str) -> tuple[Cluster, ClusterNode]:
    cluster = ports.clusters.get(cluster_name)
    if cluster.status not in ("InService", "Ready"):
        raise WrongState(
            f"Cluster '{cluster_name}' is {cluster.status}; its nodes cannot be changed now.",
            next_step="Its nodes can be changed while it is InService or Ready: look at it with "
            f"trainyard cluster show {cluster_name}.",
        )
    for node in ports.backend(cluster).nodes(cluster):
        if node.instance_id == instance_id:
            return cluster, node
    raise NodeNotFound.of(instance_id)
