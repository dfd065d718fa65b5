"""A cluster's nodes: the backend's state, Slurm's state and the newest sample, joined."""

from __future__ import annotations

from datetime import timedelta

from trainyard.domain.errors import BadPageToken, FieldError
from trainyard.domain.records import Cluster, ClusterNode
from trainyard.outside.pages import Page
from trainyard.ports import Ports
from trainyard_contracts.events import ClusterHeartbeat, NodeSample

#: Agents that do not yet say in how many parts a look at the cluster comes put so many nodes into
#: one.
_NODES_OF_AN_UNCOUNTED_PART = 300


def list_nodes(ports: Ports, cluster_name: str) -> list[ClusterNode]:
    """Raises ClusterNotFound."""
    cluster = ports.clusters.get(cluster_name)
    if cluster.arn is None or cluster.status == "Deleted":
        return []
    newest = samples(ports, cluster)
    return [
        _joined(node, newest.get(node.instance_id))
        for node in ports.backend(cluster).nodes(cluster)
    ]


def list_node_page(
    ports: Ports, cluster_name: str, *, limit: int, token: str | None
) -> Page[ClusterNode]:
    """By group and instance, so that a node which comes or goes moves no other to another page.

    Raises ClusterNotFound, BadPageToken.
    """
    after = _position(cluster_name, token)
    nodes = sorted(list_nodes(ports, cluster_name), key=_place)
    rest = [node for node in nodes if after is None or _place(node) > after]
    page = rest[:limit]
    more = len(rest) > limit
    return Page(page, f"{cluster_name}/{'/'.join(_place(page[-1]))}" if more else None)


def _place(node: ClusterNode) -> tuple[str, str]:
    return node.group, node.instance_id


def _position(cluster_name: str, token: str | None) -> tuple[str, str] | None:
    if token is None:
        return None
    cluster, _, place = token.partition("/")
    group, _, instance = place.partition("/")
    if cluster != cluster_name or not instance:
        words = "is not one that this API gave out for this cluster; start again without it"
        raise BadPageToken(f"nextToken: {words}", errors=[FieldError("nextToken", words)])
    return group, instance


def newest_heartbeats(ports: Ports, cluster_name: str, count: int) -> list[ClusterHeartbeat]:
    """The newest ones of the last day, oldest first."""
    return ports.clusters.heartbeats(
        cluster_name, since=ports.clock.now() - timedelta(days=1), limit=count
    )


def samples(ports: Ports, cluster: Cluster) -> dict[str, NodeSample]:
    """Each node's newest sample, by its instance, or by its name where it knows no other.

    A large cluster's are in several heartbeats, of which the newest may still be on their way.
    """
    beats = newest_heartbeats(ports, cluster.name, 1)
    nodes = sum(group.count + group.spares for group in cluster.spec.groups())
    parts = max([1 + nodes // _NODES_OF_AN_UNCOUNTED_PART, *[2 * beat.parts - 1 for beat in beats]])
    if parts > 1:
        beats = newest_heartbeats(ports, cluster.name, parts)
    return {sample.instance_id or sample.node: sample for beat in beats for sample in beat.nodes}


def _joined(node: ClusterNode, sample: NodeSample | None) -> ClusterNode:
    if sample is None:
        return node
    wire = sample.model_dump(mode="json", by_alias=True)
    update = {
        "name": sample.node,
        "agent": sample.agent,
        "scheduler": sample.scheduler,
        "sample": wire,
    }
    return node.changed(**update)
