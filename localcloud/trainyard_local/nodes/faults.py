"""Faults of a whole node that may pass again; each kind of node offers its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NodeFault:
    """`begin` takes the fault's request and returns what it did.

    `end` undoes it, also when it ended before.
    """

    begin: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    end: Callable[[], None]
