"""What a backend tells of clusters, nodes and their prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trainyard.domain.states import BackendStatus


@dataclass(frozen=True)
class BackendCluster:
    """The backend's own view.

    `said` is its own word for the status, to be shown and never compared.
    """

    backend: str
    arn: str
    name: str
    status: BackendStatus
    said: str
    failure_message: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None


@dataclass(frozen=True)
class BackendRequest:
    """What `create` would send: the exact request and the files it would upload (key -> bytes).

    Of a cluster whose nodes come with jobs it is the request of a run's first job. `warnings` are
    what the backend says of it and takes it all the same.
    """

    operation: str
    request: dict[str, Any]
    files: dict[str, int]
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Product:
    """What AWS's price list bills a node as.

    Any of `filters` finds it, and `usage_type` matches.
    """

    service: str
    filters: tuple[Mapping[str, str], ...]
    usage_type: str


@dataclass(frozen=True)
class BatchResult:
    """Outcome of a replace or reboot, per node id."""

    successful: list[str]
    failed: dict[str, str]  # node id -> AWS's reason


@dataclass(frozen=True)
class Remains:
    """What a backend made beside a cluster and keeps, whether the cluster is there or not."""

    backend: str
    name: str
    generation: int
    created_at: datetime
