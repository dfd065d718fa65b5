"""A backend: what makes clusters and runs jobs on them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from trainyard.domain.records import Cluster, ClusterNode
from trainyard.outside.adoptions import Adoptions
from trainyard.outside.changes import Changes
from trainyard.outside.commands import Commands
from trainyard.outside.seen_clusters import (
    BackendCluster,
    BackendRequest,
    BatchResult,
    Product,
    Remains,
)
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts.specs import JobSpec


class OfBackend(Protocol):
    """What lives in one backend: a cluster, its spec, what was seen of it."""

    @property
    def backend(self) -> str: ...


class Backend(Commands, Protocol):
    """Where clusters live; a command to one reaches the agent of its controller."""

    @property
    def changes(self) -> Changes | None:
        """None where clusters that are there cannot be changed."""
        ...

    @property
    def adoptions(self) -> Adoptions | None:
        """None where clusters that others made cannot be adopted."""
        ...

    def plan(
        self, cluster: Cluster, *, tried: bool = True, job: JobSpec | None = None
    ) -> BackendRequest:
        """The exact request and files of `create`, with nothing made.

        `tried`: a backend that can judge a request without making anything is asked to. That may
        take long. `job`: what the request of a backend is made of whose nodes come with each job.
        """
        ...

    def create(self, cluster: Cluster) -> str:
        """Upload the lifecycle bundle and create the cluster. Returns the ARN.

        Idempotent by the record's name and mark. Raises errors.BackendRejected with AWS's reason,
        errors.NoCapacity, errors.ClusterNameTaken (the cluster is not ours, or another record's).
        """
        ...

    def attend(self, cluster: Cluster) -> None:
        """Do what `create` could not do yet, as often as its making is looked at.

        Again changes nothing. What fails here hinders no cluster.
        """
        ...

    def describe(self, name: str) -> BackendCluster | None:
        """None = does not exist."""
        ...

    def read_event(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        """An event of EventBridge as a fact, or why it is dropped.

        None where it is not this backend's.
        """
        ...

    def event_reason(self, name: str, event_id: str) -> str:
        """Why the event of a cluster happened, where the backend says it; '' where it does not."""
        ...

    def nodes(self, cluster: Cluster) -> builtins.list[ClusterNode]: ...

    def controller(self, cluster: Cluster) -> ClusterNode | None:
        """The controller, found without looking at every node; None while there is none."""
        ...

    def product(self, instance_type: str) -> Product:
        """Where the price list has a node of this type."""
        ...

    def replace(self, name: str, instance_ids: Sequence[str]) -> BatchResult: ...

    def reboot(self, name: str, instance_ids: Sequence[str]) -> BatchResult: ...

    def delete(self, name: str) -> bool:
        """Ask for deletion; False if it is already gone.

        Raises errors.ConflictError while another operation runs.
        """
        ...

    def clean_up(self, name: str, generation: int) -> None:
        """Remove what `create` made beside this generation of the cluster, which is gone.

        Again changes nothing.
        """
        ...

    def remains(self) -> builtins.list[Remains]:
        """What `create` made beside clusters and nobody removed yet."""
        ...

    def tagged(self) -> builtins.list[BackendCluster]:
        """Clusters that carry this deployment's tag."""
        ...

    def lifecycle_log(self, cluster: Cluster, *, lines: int, instance_id: str | None = None) -> str:
        """Tail of the lifecycle script's log; '' if there is none.

        It is that of `instance_id`, else of the instance that failed.
        """
        ...
