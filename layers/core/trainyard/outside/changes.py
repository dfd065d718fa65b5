"""Changes of clusters that are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from trainyard.domain.records import Cluster
from trainyard.outside.seen_clusters import BackendRequest
from trainyard_contracts.cluster_base import ClusterBase


@dataclass(frozen=True)
class ChangePlan:
    """What a change of a cluster that is there would send, and what it takes.

    `nothing`: the backend sees no difference; what changes is Trainyard's own.
    """

    request: BackendRequest
    stops_fleet: bool = False
    nothing: bool = False


@dataclass(frozen=True)
class ChangeSeen:
    """How far the backend is with the newest change of a cluster.

    `updated` is its word for when the cluster changed last, to be compared for equality only.
    """

    state: Literal["changing", "complete", "rolled-back", "failed"]
    fleet: Literal["running", "stopped", "changing"]
    said: str
    reason: str = ""
    updated: str = ""


class Changes(Protocol):
    """How clusters that are there get another spec, and how their workers are stopped and started.

    Each method that changes something may be repeated. Raises errors.BackendRejected with the
    backend's reason, errors.ConflictError while another operation runs.
    """

    def plan(self, cluster: Cluster, wanted: ClusterBase) -> ChangePlan:
        """Let the backend judge it; nothing is changed."""
        ...

    def apply(self, cluster: Cluster, wanted: ClusterBase) -> bool:
        """Ask for it; False if the backend sees no difference (any more)."""
        ...

    def restore(self, cluster: Cluster) -> None:
        """After a change that was undone: put the files of its nodes back as they were."""
        ...

    def look(self, cluster: Cluster) -> ChangeSeen | None:
        """None = does not exist."""
        ...

    def set_fleet(self, cluster: Cluster, *, running: bool) -> None:
        """Ask for its workers to be started or stopped."""
        ...
