"""What a cluster of others must be to be adopted, and which of its nodes wait for the agent. Pure.

A cluster that was adopted is never deleted, replaced or changed by its record alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from trainyard.domain.records import AdoptedNode, Adoption, Cluster, ClusterNode
from trainyard.domain.states import NodeState

#: A node of an adopted cluster that failed is asked again after this, and after twice as long each
#: time.
AGAIN_SECONDS = 10
#: After so many failures nobody waits for a worker, and an adoption whose controller fails so often
#: is given up.
TRIES = 3
#: An installation that was begun is looked at again after this.
LOOK_SECONDS = 5
#: A node with our agent whose agent is not linked for so long is asked again: it may have lost its
#: disk, as with an update of its software.
SILENT_SECONDS = 300
#: So long after it was asked a node may still begin with what it was asked for.
UNDER_WAY_SECONDS = 60


def due(
    adoption: Adoption, nodes: Sequence[ClusterNode], linked: Collection[str], now: datetime
) -> list[ClusterNode]:
    """The nodes that are to be asked for the agent now, the controller before all others."""
    running = [node for node in nodes if node.status == NodeState.RUNNING]
    wanting = [node for node in running if _wants(adoption, node, linked, now)]
    first = [node for node in running if node.role == "controller"]
    ready = [node for node in first if _state(adoption, node) == "installed"]
    return wanting if ready else [node for node in wanting if node in first]


def _wants(adoption: Adoption, node: ClusterNode, linked: Collection[str], now: datetime) -> bool:
    known = adoption.nodes.get(node.instance_id)
    if known is None:
        return True
    if known.state == "installed":
        silent = node.instance_id not in linked
        return silent and now - known.at >= timedelta(seconds=SILENT_SECONDS)
    pause = AGAIN_SECONDS * 2 ** min(known.tries, 6) if known.state == "failed" else LOOK_SECONDS
    return now - known.at >= timedelta(seconds=pause)


def _state(adoption: Adoption, node: ClusterNode) -> str:
    known = adoption.nodes.get(node.instance_id)
    return known.state if known is not None else ""


def lacking(adoption: Adoption, nodes: Sequence[ClusterNode]) -> int:
    """How many nodes the cluster's readiness waits for.

    A worker that failed again and again does not hold up the others.
    """
    return sum(
        _state(adoption, node) != "installed" and not _given_up(adoption, node)
        for node in nodes
        if node.status == NodeState.RUNNING
    )


def _given_up(adoption: Adoption, node: ClusterNode) -> bool:
    known = adoption.nodes.get(node.instance_id)
    return node.role != "controller" and known is not None and known.tries >= TRIES


def refusal(cluster: Cluster, nodes: Sequence[ClusterNode]) -> str | None:
    """Why the adoption cannot succeed: the controller failed again and again."""
    adoption = cluster.adoption
    assert adoption is not None
    for node in nodes:
        known = adoption.nodes.get(node.instance_id)
        if node.role == "controller" and known is not None and known.tries >= TRIES:
            return f"The agent cannot be installed on the controller: {known.reason}"
    return None


def failed(known: AdoptedNode, reason: str, now: datetime) -> AdoptedNode:
    return known.changed(state="failed", at=now, tries=known.tries + 1, reason=reason[:1000])


def settled(known: AdoptedNode, now: datetime) -> bool:
    """Whether what was asked of the node long ago can no longer begin there."""
    asked = known.state == "asked"
    return not asked or now - known.at >= timedelta(seconds=UNDER_WAY_SECONDS)
