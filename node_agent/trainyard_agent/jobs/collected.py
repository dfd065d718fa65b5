"""Gathers what an attempt reports, by its names, in memory that does not grow with the reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainyard_contracts.curves import (
    LONGEST_NAME,
    LOSS,
    MOST_NAMES,
    MOST_POINTS,
    MOST_POINTS_IN_ALL,
    KeptCurve,
    Point,
)
from trainyard_contracts.thinning import Thinned

#: Names that are left out are counted up to so many.
_COUNTED_NAMES = 10_000
_HIGHEST_STEP = 10**12


@dataclass
class _Name:
    points: Thinned[Point]
    newest: Point | None = None
    not_finite: int = 0


@dataclass
class Collected:
    """The names that came first have their points; what is too much is counted."""

    names: dict[str, _Name] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def add(self, name: str, step: int, at: float, value: object) -> None:
        """What is no number is passed over; None means NaN or infinity."""
        if isinstance(value, bool) or not (value is None or isinstance(value, int | float)):
            return
        known = self.names.get(name) or self._begin(name)
        if known is None:
            return
        number = finite(value)
        if number is None:
            known.not_finite += 1
            return
        point = (step, at, number)
        known.points.add(number, point)
        if known.newest is None or step >= known.newest[0]:
            known.newest = point

    def _begin(self, name: str) -> _Name | None:
        if len(name) > LONGEST_NAME or not name or len(self.names) >= MOST_NAMES:
            if len(self.left_out) < _COUNTED_NAMES:
                self.left_out.add(name[: 2 * LONGEST_NAME])
            return None
        share = share_of(len(self.names) + 1)
        for other in self.names.values():
            other.points.limit(share)
        self.names[name] = _Name(Thinned(share))
        return self.names[name]

    def curves(self) -> list[KeptCurve]:
        """All names in the order in which they came, each by its steps."""
        return [
            KeptCurve(
                name=_writable(name),
                points=_by_step(known),
                reports=known.points.seen + known.not_finite,
                not_finite=known.not_finite,
            )
            for name, known in self.names.items()
        ]


def losses_of(said: Sequence[Point], before: Sequence[Point]) -> Collected:
    """Losses that were read in a log, and those from before this agent was restarted, by step."""
    by_step = {point[0]: point for point in (*said, *before)}
    found = Collected()
    for step in sorted(by_step):
        found.add(LOSS, *by_step[step])
    return found


def share_of(names: int) -> int:
    """The points that each of so many names may have, one more left for the newest."""
    return max(4, min(MOST_POINTS, MOST_POINTS_IN_ALL // names) - 1)


def joined(parts: Sequence[Collected]) -> tuple[list[KeptCurve], int]:
    """The names of all parts, and how many were left out; of one name the first part counts."""
    found: dict[str, KeptCurve] = {}
    left_out: set[str] = set()
    for part in parts:
        left_out |= part.left_out
        for curve in part.curves():
            if curve.name in found or len(found) < MOST_NAMES:
                found.setdefault(curve.name, curve)
            else:
                left_out.add(curve.name)
    return list(found.values()), len(left_out - found.keys())


def finite(value: float | None) -> float | None:
    try:
        number = math.nan if value is None else float(value)
    except OverflowError:  # of a whole number that no float holds
        return None
    return number if math.isfinite(number) else None


def step_of(line: Mapping[str, object]) -> int | None:
    """The step that a line is about; None if it names none."""
    step = line.get("step")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= _HIGHEST_STEP:
        return None
    return step


def _by_step(known: _Name) -> list[Point]:
    points = known.points.items()
    if known.newest is not None and known.newest not in points:
        points.append(known.newest)
    return sorted(points, key=lambda point: point[0])


def _writable(name: str) -> str:
    """Half of a pair of surrogates, which JSON may hold, is no text that can be written."""
    return name.encode("utf-8", "replace").decode()
