"""Brings the agent to the nodes of a cluster that others made, and takes it back from them.

Which nodes may have anything of ours is stored before any of them is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from trainyard.app.clusters.list_nodes import samples
from trainyard.domain import adoption as rules
from trainyard.domain.errors import TrainyardError
from trainyard.domain.problems import problem
from trainyard.domain.records import AdoptedNode, Adoption, Cluster, ClusterNode
from trainyard.outside.adoptions import Adoptions, NodeAnswer
from trainyard.ports import Ports

#: Asked in one step of a machine: AWS starts three sessions a second.
AT_ONCE = 16
#: A sample so old says nothing of the node's agent.
LINKED_SECONDS = 180
#: A node that a person gives up is given up after so many tries.
TRIES = 3


def install_round(ports: Ports, cluster: Cluster, at_once: int = AT_ONCE) -> Cluster:
    """Ask the nodes whose turn it is for the agent, and store what came of it.

    Raises ConflictError if somebody else changed the record: then nothing was asked.
    """
    assert cluster.adoption is not None
    nodes = ports.backend(cluster).nodes(cluster)
    now = ports.clock.now()
    adoption = _without_gone(cluster.adoption, nodes)
    asked = rules.due(adoption, nodes, _linked(ports, cluster), now)[:at_once]
    fresh = {
        node.instance_id: _entry(adoption, node).changed(state="asked", at=now) for node in asked
    }
    adoption = adoption.changed(nodes={**adoption.nodes, **fresh})
    cluster = _stored(ports, cluster, adoption, nodes)
    if not asked:
        return cluster
    found = _ask(asked, lambda node: _adoptions(ports, cluster).install(cluster, node))
    after = {
        node.instance_id: _after(ports, fresh[node.instance_id], found[node.instance_id])
        for node in asked
    }
    adoption = adoption.changed(nodes={**adoption.nodes, **after})
    return _stored(ports, cluster, adoption, nodes, _taken(found))


def take_back_round(ports: Ports, cluster: Cluster, at_once: int = AT_ONCE) -> Cluster:
    """Have the nodes remove what is ours, the controller first.

    Without its agent no other agent's end is taken for a node's loss. A node that is gone took
    everything with it.
    """
    assert cluster.adoption is not None
    nodes = ports.backend(cluster).nodes(cluster)
    now = ports.clock.now()
    adoption = _without_gone(cluster.adoption, nodes)
    having = [
        node
        for node in nodes
        if (known := adoption.nodes.get(node.instance_id)) is not None and rules.settled(known, now)
    ]
    controllers = [node for node in having if node.role == "controller"]
    asked = (controllers or having)[:at_once]
    found = _ask(asked, lambda node: _adoptions(ports, cluster).take_back(cluster, node))
    for node in asked:
        adoption = _without(ports, cluster, adoption, node, found[node.instance_id])
    if adoption == cluster.adoption:
        return cluster
    return ports.clusters.put(cluster.changed(adoption=adoption))


def _without(
    ports: Ports, cluster: Cluster, adoption: Adoption, node: ClusterNode, answer: NodeAnswer
) -> Adoption:
    known = adoption.nodes[node.instance_id]
    others = {key: value for key, value in adoption.nodes.items() if key != node.instance_id}
    left = [*adoption.left, *(f"{node.name or node.instance_id}: {one}" for one in answer.left)]
    if answer.state in ("gone", "taken"):
        return adoption.changed(nodes=others, left=left)
    tried = rules.failed(known, answer.reason, ports.clock.now())
    if cluster.delete_forced and tried.tries >= TRIES:
        words = f"{node.name or node.instance_id} was given up: {answer.reason}"
        return adoption.changed(nodes=others, left=[*left, words])
    return adoption.changed(nodes={**others, node.instance_id: tried})


def _ask(
    nodes: Sequence[ClusterNode], ask: Callable[[ClusterNode], NodeAnswer]
) -> Mapping[str, NodeAnswer]:
    """What each of them answers; one that does not answer has failed, for now."""

    def answer(node: ClusterNode) -> NodeAnswer:
        try:
            return ask(node)
        except TrainyardError as error:
            return NodeAnswer("failed", error.detail)

    if not nodes:
        return {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(answer, nodes)
        return {node.instance_id: one for node, one in zip(nodes, answers, strict=True)}


def _after(ports: Ports, known: AdoptedNode, answer: NodeAnswer) -> AdoptedNode:
    now = ports.clock.now()
    if answer.state == "installed":
        return known.changed(state="installed", at=now, tries=0, reason="")
    if answer.state == "installing":
        return known.changed(state="installing", at=now)
    return rules.failed(known, answer.reason, now)


def _taken(found: Mapping[str, NodeAnswer]) -> str:
    """Another Trainyard has these nodes: nothing of theirs is touched."""
    return next((answer.reason for answer in found.values() if answer.state == "taken"), "")


def _stored(
    ports: Ports,
    cluster: Cluster,
    adoption: Adoption,
    nodes: Sequence[ClusterNode],
    taken: str = "",
) -> Cluster:
    adoption = adoption.changed(lacking=rules.lacking(adoption, nodes))
    after = cluster.changed(adoption=adoption)
    making = cluster.status in ("Creating", "InService")
    if making and (why := taken or rules.refusal(after, nodes)) and cluster.problem is None:
        after = after.changed(problem=problem("adoption-failed", why))
    return cluster if after == cluster else ports.clusters.put(after)


def _without_gone(adoption: Adoption, nodes: Sequence[ClusterNode]) -> Adoption:
    there = {node.instance_id for node in nodes}
    return adoption.changed(
        nodes={key: known for key, known in adoption.nodes.items() if key in there}
    )


def _entry(adoption: Adoption, node: ClusterNode) -> AdoptedNode:
    known = adoption.nodes.get(node.instance_id)
    return known or AdoptedNode.model_validate({"group": node.group, "at": "1970-01-01T00:00:00Z"})


def _linked(ports: Ports, cluster: Cluster) -> set[str]:
    """Nodes whose agents were linked a moment ago."""
    since = ports.clock.now() - timedelta(seconds=LINKED_SECONDS)
    return {
        key
        for key, sample in samples(ports, cluster).items()
        if sample.agent == "linked" and sample.at >= since
    }


def _adoptions(ports: Ports, cluster: Cluster) -> Adoptions:
    found = ports.backend(cluster).adoptions
    assert found is not None, cluster.backend  # else no adoption was stored
    return found
