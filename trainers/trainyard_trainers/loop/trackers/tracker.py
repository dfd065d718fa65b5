"""What a tracker's client offers, and how it says that it cannot go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Point:
    """Values of one step; `at`: seconds since the epoch."""

    step: int
    at: float
    values: Mapping[str, float]


class Refused(Exception):
    """It will never take the points: why, and what to do."""


class Unreachable(Exception):
    """It may take them later."""


class Tracker(Protocol):
    """Every method raises Refused and Unreachable, and may be called again after the latter."""

    def begin(self) -> None:
        """Make the tracker's run, or go on with the one that an earlier attempt made."""
        ...

    def add(self, points: Sequence[Point]) -> None: ...

    def end(self, how: str) -> None: ...
