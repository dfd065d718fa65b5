"""The spec of a cluster: one class for each backend, told apart by `backend`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import TypeAdapter
from typing_extensions import TypeAliasType

from .by_backend import ByBackend
from .hyperpod import HyperPodClusterSpec

#: One entry for each backend: `HyperPodClusterSpec | OtherClusterSpec`.
ClusterSpec = TypeAliasType("ClusterSpec", Annotated[HyperPodClusterSpec, ByBackend()])
_READER: TypeAdapter[ClusterSpec] = TypeAdapter(ClusterSpec)


def read_cluster_spec(given: Any) -> ClusterSpec:
    """The spec of a cluster, by the class of its backend. Raises pydantic.ValidationError."""
    return _READER.validate_python(given)
