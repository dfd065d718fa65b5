"""Clusters and their nodes as Slack shows them."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.chat.blocks import Message, escaped, message, moment, quoted
from trainyard.domain.records import Cluster, ClusterNode
from trainyard.domain.states import NodeState
from trainyard.domain.words import counted, who

#: Nodes of one answer: those with trouble come first.
MOST_NODES = 30
#: How Slurm's words for a node begin that takes no job.
_TROUBLE_IN_SLURM = ("down", "drain", "fail", "not_responding")


def cluster_list(clusters: Sequence[Cluster], *, more: bool) -> Message:
    if not clusters:
        return message("Clusters", ["There is no cluster."])
    lines = [_line(cluster) for cluster in clusters]
    return message("Clusters", lines, end="There are more: `trainyard cluster ls`." if more else "")


def _line(cluster: Cluster) -> str:
    nodes = sum(group.count + group.spares for group in cluster.spec.groups())
    owner = f", made for `{cluster.owner_run}`" if cluster.owner_run else ""
    said = (
        f"*{escaped(cluster.name)}*  {cluster.status}  {cluster.spec.backend}, "
        f"{counted(nodes, 'node')}, of {escaped(who(cluster.created_by))}{owner}, "
        f"{moment(cluster.created_at)}"
    )
    if cluster.problem is not None:
        said += f"\n{escaped(cluster.problem.title)}: {quoted(cluster.problem.detail, 500)}"
    return said


def node_list(cluster: str, nodes: Sequence[ClusterNode]) -> Message:
    title = f"Nodes of {cluster}"
    if not nodes:
        return message(title, ["The cluster has no node now."])
    troubled = sorted(nodes, key=lambda node: (not _troubled(node), node.group, node.instance_id))
    well = sum(not _troubled(node) for node in nodes)
    shown = troubled[:MOST_NODES]
    left = len(nodes) - len(shown)
    lines = [f"{well} of {counted(len(nodes), 'node')} run without a known trouble."]
    lines += [_node(node) for node in shown]
    end = f"{left} more: `trainyard node ls {escaped(cluster)}`." if left else ""
    return message(title, lines, end=end)


def _troubled(node: ClusterNode) -> bool:
    lost = node.agent == "silent" or node.scheduler.startswith(_TROUBLE_IN_SLURM)
    return lost or node.status != NodeState.RUNNING


def _node(node: ClusterNode) -> str:
    said = (
        f"`{escaped(node.name or node.instance_id)}`  {node.status}  {node.role}, "
        f"{escaped(node.instance_type)}; agent {escaped(node.agent)}, Slurm "
        f"{escaped(node.scheduler)}"
    )
    return f"{said}\n{quoted(node.message, 300)}" if node.message else said
