"""Limits of a configuration's numbers: declared beside the type, checked when an object is made.

batch: Annotated[int, at_least(1)] = 16
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    """Limits as in annotated-types: ge is >=, gt is >, le is <=, lt is <.

    `words` follow the field's name and value in an error: what is wrong, and what would be right.
    """

    words: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def holds(self, value: float) -> bool:
        """Never for NaN."""
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )


def at_least(least: int) -> Bound:
    return Bound(f"is too small; use {least} or more", ge=least)


POSITIVE = Bound("must be above 0", gt=0)
NOT_NEGATIVE = Bound("is negative; use 0 or more", ge=0)
PART = Bound("must be at least 0 and below 1", ge=0, lt=1)


def bounds(kind: type[Any]) -> Iterator[tuple[str, Bound]]:
    """(field, bound) of a class and of those that it is made of."""
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        for extra in getattr(hint, "__metadata__", ()):
            if isinstance(extra, Bound):
                yield name, extra


class Bounded:
    """Base of dataclasses that raise ValueError for the first field that is out of its bounds.

    A dataclass with its own `__post_init__` calls this one first.
    """

    def __post_init__(self) -> None:
        for name, bound in bounds(type(self)):
            value = getattr(self, name)
            if not bound.holds(value):
                raise ValueError(f"{name}: {value} {bound.words}")
