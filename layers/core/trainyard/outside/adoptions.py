"""Clusters that others made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from trainyard.domain.foreign_clusters import ForeignCluster
from trainyard.domain.records import Cluster, ClusterNode
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.cluster_specs import ClusterSpec


@dataclass(frozen=True)
class NodeAnswer:
    """How far a node is with what it was asked for, and why not further.

    'taken': another Trainyard has it. 'gone': nothing of ours is there (any more).
    """

    state: Literal["installing", "installed", "failed", "taken", "gone"]
    reason: str = ""
    left: Sequence[str] = ()


class Adoptions(Protocol):
    """How clusters that others made come under our care, and out of it again.

    Each method that changes something may be repeated.
    """

    def look(self, name_or_arn: str) -> ForeignCluster | None:
        """None = does not exist."""
        ...

    def spec(self, asked: AdoptSpec, seen: ForeignCluster) -> ClusterSpec:
        """The cluster as a spec; nothing stands against it."""
        ...

    def policy(self, cluster: Cluster) -> Mapping[str, Any]:
        """What the role of its nodes must allow besides, as a document of IAM."""
        ...

    def offer(self, cluster: Cluster) -> None:
        """Put what its nodes fetch where they find it; the cluster itself is not touched."""
        ...

    def install(self, cluster: Cluster, node: ClusterNode) -> NodeAnswer:
        """Have the node fetch and install the agent, unless it has it.

        Raises errors.NodeUnreachable, errors.CommandFailed.
        """
        ...

    def take_back(self, cluster: Cluster, node: ClusterNode) -> NodeAnswer:
        """Have the node remove what `install` made. Raises as `install`."""
        ...
