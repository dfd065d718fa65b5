"""What the stories need of a backend: a cluster's spec, ways to break it, and what it has left."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import ClassVar, get_args

from tests.support.system import Json, System

from trainyard_contracts.cluster_specs import ClusterSpec

#: Every story: the file that holds it without `test_`, and what it is about.
STORIES: Mapping[str, str] = {
    "success": "a run succeeds, its export is verified, nothing is left",
    "killed_worker": "a worker process is killed: the run resumes",
    "lost_node": "a node is lost: the run resumes on other nodes",
    "torn_checkpoint": "the newest checkpoint is torn: the one before is used, and it is said",
    "same_error": "the same error at the same step twice: the run stops with evidence",
    "cancel": "a run is cancelled: what is whole is kept",
    "creation_fails": "AWS refuses the cluster: the run ends with AWS's reason",
    "no_capacity": "AWS has no capacity: the next way is tried, or the run ends with the words",
    "only_copy": "the export fails: what holds the only copy is kept, and it is said",
}


class Adapter(ABC):
    """One for each backend; the stories know nothing else of it."""

    #: What a spec's `backend` says.
    name: ClassVar[str]
    #: Stories that cannot be, each with the reason in one sentence.
    without: ClassVar[Mapping[str, str]] = {}
    #: Variables of the local cloud's server, where the backend's own times are long.
    settings: ClassVar[Mapping[str, str]] = {}

    def missing(self) -> str | None:
        """What this machine lacks for the backend, in words; None if it lacks nothing."""
        return None

    @abstractmethod
    def cluster(self, name: str) -> Json:
        """`cluster.spec` of two nodes, and of a spare where the backend has spares."""

    @abstractmethod
    def scarce(self, system: System, name: str) -> Json:
        """The same, but AWS has no capacity for it, or for its first way where there are ways."""

    @abstractmethod
    def kill_worker(self, system: System, run: Json) -> None:
        """SIGKILL one training process of the run."""

    @abstractmethod
    def lose_node(self, system: System, run: Json) -> None:
        """One of the run's nodes is gone at once."""

    @abstractmethod
    def tear(self, system: System, run: Json, checkpoint: Json) -> None:
        """Damage a whole checkpoint where the next attempt will look for it."""

    @abstractmethod
    def refused(self, system: System) -> AbstractContextManager[str]:
        """AWS makes no cluster until the end of the block; gives what its reason must hold."""

    @abstractmethod
    def spoiled_export(self, system: System, run: Json) -> AbstractContextManager[None]:
        """No export of the run succeeds until the end of the block."""

    @abstractmethod
    def left(self, system: System, cluster: Json) -> list[str]:
        """What the backend still has of a cluster: nothing, once it is deleted."""

    @abstractmethod
    def keeps(self, system: System, run: Json) -> list[str]:
        """The run's whole checkpoints where it trained, while nothing is exported."""


def members() -> list[str]:
    """The backends of the union of specs."""
    union = get_args(ClusterSpec.__value__)[0]
    found = get_args(union) or (union,)
    return [str(get_args(member.model_fields["backend"].annotation)[0]) for member in found]


def adapter_of(name: str) -> Adapter:
    """The adapter of a backend. Raises ModuleNotFoundError for one that has none."""
    module = importlib.import_module(f"tests.conformance.backends.{name.replace('-', '_')}")
    adapter: Adapter = module.ADAPTER
    return adapter


def settings() -> dict[str, str]:
    """What every backend wants of the local cloud's server."""
    return {key: value for name in members() for key, value in adapter_of(name).settings.items()}
