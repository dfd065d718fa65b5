"""Draws a small curve in characters: how training goes is seen without another tool."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH, HEIGHT = 60, 8


def curve(
    points: Sequence[tuple[float, float]], *, width: int = WIDTH, height: int = HEIGHT
) -> list[str]:
    """The lines of a picture, with the largest and the smallest value at its side.

    `points` are x and y; each column is the mean of its points, and a column without any is empty.
    """
    found = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if not found:
        return []
    columns = _columns(found, width)
    values = [value for value in columns if value is not None]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    top = height * (len(_BLOCKS) - 1)
    levels = [
        None if value is None else 1 + round((value - low) / span * (top - 1)) for value in columns
    ]
    labels = {0: f"{high:.4g}", height - 1: f"{low:.4g}"}
    side = max(map(len, labels.values()))
    return [
        f"{labels.get(row, ''):>{side}} {_row(levels, height - 1 - row)}".rstrip()
        for row in range(height)
    ]


def _columns(points: Sequence[tuple[float, float]], width: int) -> list[float | None]:
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    held: list[list[float]] = [[] for _ in range(width)]
    for x, y in points:
        place = (x - first) / (last - first) if last > first else 0.0
        held[min(width - 1, int(place * width))].append(y)
    return [sum(ys) / len(ys) if ys else None for ys in held]


def _row(levels: Sequence[int | None], above: int) -> str:
    """One line of blocks; `above` is how many lines lie below it."""
    full = len(_BLOCKS) - 1
    return "".join(
        " " if level is None else _BLOCKS[min(full, max(0, level - above * full))]
        for level in levels
    )
