"""Each backend's entries: the class of its spec, which `backend` names, and of its events."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter
from typing_extensions import TypeAliasType

from .by_backend import ByBackend
from .hyperpod import ClusterStateChange, HyperPodClusterSpec
from .parallelcluster import ParallelClusterSpec
from .training_job import TrainingJobClusterSpec, TrainingJobStateChange

#: One entry for each backend. The first is that of a spec that names none.
ClusterSpec = TypeAliasType(
    "ClusterSpec",
    Annotated[HyperPodClusterSpec | ParallelClusterSpec | TrainingJobClusterSpec, ByBackend()],
)
#: Events of AWS that are read by a class.
BACKEND_EVENTS: tuple[type[BaseModel], ...] = (ClusterStateChange, TrainingJobStateChange)
_READER: TypeAdapter[ClusterSpec] = TypeAdapter(ClusterSpec, config=ConfigDict(defer_build=True))


def read_cluster_spec(given: Any) -> ClusterSpec:
    """The spec of a cluster, by the class of its backend. Raises pydantic.ValidationError."""
    return _READER.validate_python(given)
