"""Policies of nodes."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True)
class NodePolicy:
    """A policy that the nodes of one cluster have, where the backend itself makes their roles."""

    arn: str
    name: str
    path: str
    document: Mapping[str, Any]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class FoundPolicy:
    """A policy that is there."""

    arn: str
    path: str
    created_at: datetime


class Policies(Protocol):
    """Policies of nodes."""

    def ensure(self, policy: NodePolicy) -> None:
        """Make the policy if it is not there."""
        ...

    def delete(self, arn: str) -> None:
        """Delete it if it is there. Raises errors.RetryableError while a role has it."""
        ...

    def below(self, path: str) -> builtins.list[FoundPolicy]: ...
