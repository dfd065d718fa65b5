"""The Python SDK of Trainyard: `Trainyard().submit(spec).wait()`, and the client below it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .asynchronous import AsyncCluster, AsyncRun, AsyncTrainyard
    from .client import Client
    from .handles import Cluster, Run, RunFailed
    from .problems import (
        ApiProblem,
        Interrupted,
        InvalidInput,
        NotInTime,
        Refused,
        SdkError,
        Unreachable,
    )
    from .sdk import Trainyard
    from .signing import SigV4

__all__ = [
    "ApiProblem",
    "AsyncCluster",
    "AsyncRun",
    "AsyncTrainyard",
    "Client",
    "Cluster",
    "Interrupted",
    "InvalidInput",
    "NotInTime",
    "Refused",
    "Run",
    "RunFailed",
    "SdkError",
    "SigV4",
    "Trainyard",
    "Unreachable",
]

_ROOMS = {
    "asynchronous": ("AsyncCluster", "AsyncRun", "AsyncTrainyard"),
    "client": ("Client",),
    "handles": ("Cluster", "Run", "RunFailed"),
    "problems": (
        "ApiProblem",
        "Interrupted",
        "InvalidInput",
        "NotInTime",
        "Refused",
        "SdkError",
        "Unreachable",
    ),
    "sdk": ("Trainyard",),
    "signing": ("SigV4",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Read when it is asked for: a command that lists runs needs no class of a spec."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
