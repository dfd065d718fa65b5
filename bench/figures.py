"""Medians, percentiles and shares of the measurements, and the machine that they come from."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that `percent` of all values do not exceed (nearest rank), or None."""
    if not values:
        return None
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def median(values: Sequence[float]) -> float | None:
    """The middle value; between two, their mean."""
    ordered = sorted(values)
    if not ordered:
        return None
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def machine() -> dict[str, Any]:
    """Where it was measured, and how busy it was: numbers of a loaded machine mean little."""
    return {
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "loadAverage": list(os.getloadavg()),
    }
