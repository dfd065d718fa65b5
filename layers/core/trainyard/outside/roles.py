"""Roles of nodes."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True)
class NodeRole:
    """A role that the nodes of one cluster act under.

    `policy` is all it may do, within `boundary`.
    """

    name: str
    path: str
    boundary: str
    trust: Mapping[str, Any]
    policy: Mapping[str, Any]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class FoundRole:
    """A role that is there."""

    name: str
    path: str
    created_at: datetime


class Roles(Protocol):
    """Roles of nodes."""

    def ensure(self, role: NodeRole) -> None:
        """Make the role if it is not there, and give it its policy."""
        ...

    def delete(self, name: str, path: str) -> None:
        """Delete it if it is there; `path` is where it was made."""
        ...

    def below(self, path: str) -> builtins.list[FoundRole]: ...
