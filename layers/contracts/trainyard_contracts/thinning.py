"""Thins out a series of numbers so that its shape, its extremes, its first and its last point stay.

Needs the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


# Before Python 3.11, which nodes may have, no named tuple is generic.
@dataclass(frozen=True)
class _Entry(Generic[T]):
    number: int
    value: float
    item: T


@dataclass(frozen=True)
class _Bucket(Generic[T]):
    """So many entries in a row, of which the lowest and the highest are kept."""

    low: _Entry[T]
    high: _Entry[T]
    size: int

    def joined(self, other: _Bucket[T]) -> _Bucket[T]:
        """With the one behind it; of equal values the first and the last stay."""
        low = other.low if other.low.value < self.low.value else self.low
        high = other.high if other.high.value >= self.high.value else self.high
        return _Bucket(low, high, self.size + other.size)


class Thinned(Generic[T]):
    """Keeps at most `most` items (4 at least) of any number that are added, in bounded memory.

    They are thinned evenly by their number. Nothing is left out before `most - 2` are reached.
    """

    def __init__(self, most: int) -> None:
        self._most, self._width = most, 1
        self._buckets: list[_Bucket[T]] = []
        self._first: _Entry[T] | None = None
        self._last: _Entry[T] | None = None
        #: Items that were added.
        self.seen = 0

    def add(self, value: float, item: T) -> None:
        """The next item. `value` is what its extremes are judged by; it must be finite."""
        entry = _Entry(self.seen, value, item)
        self.seen += 1
        self._first, self._last = self._first or entry, entry
        bucket = _Bucket(entry, entry, 1)
        if self._buckets and self._buckets[-1].size < self._width:
            self._buckets[-1] = self._buckets[-1].joined(bucket)
        else:
            self._buckets.append(bucket)
            self._fold()

    def limit(self, most: int) -> None:
        """From now on at most so many."""
        self._most = min(self._most, most)
        self._fold()

    def items(self) -> list[T]:
        """What is kept, in the order in which it was added."""
        kept = [entry for bucket in self._buckets for entry in (bucket.low, bucket.high)]
        kept += [entry for entry in (self._first, self._last) if entry is not None]
        by_number = {entry.number: entry for entry in kept}
        return [by_number[number].item for number in sorted(by_number)]

    def clear(self) -> None:
        """Keep nothing of what was added."""
        self._buckets, self._first, self._last = [], None, None

    def _fold(self) -> None:
        """Join buckets by pairs until there is room: two items of each, the first and the last."""
        while len(self._buckets) > max(1, (self._most - 2) // 2):
            pairs = zip(self._buckets[::2], self._buckets[1::2], strict=False)
            joined = [before.joined(after) for before, after in pairs]
            odd = self._buckets[-1:] if len(self._buckets) % 2 else []
            self._buckets, self._width = [*joined, *odd], 2 * self._width
