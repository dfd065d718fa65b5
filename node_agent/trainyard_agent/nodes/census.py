"""How many nodes are silent at once, so that no error of ours counts as theirs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainyard_agent.nodes.node_table import Node


@dataclass(frozen=True)
class Census:
    """All nodes at a moment.

    silent: how many are being looked into. heard: the two that were heard last, the newest first.
    """

    at: float
    silent: int
    heard: Sequence[tuple[float, str]]


def unasked(node: Node) -> bool:
    """Whether the node is linked and not under suspicion."""
    return node.connected and node.questions is None


def census(nodes: Iterable[Node], now: float) -> Census:
    """Count all nodes once."""
    known = list(nodes)
    answering = ((node.heard, node.name) for node in known if node.state in ("linked", "silent"))
    silent = sum(node.questions is not None for node in known)
    return Census(now, silent, heapq.nlargest(2, answering))
