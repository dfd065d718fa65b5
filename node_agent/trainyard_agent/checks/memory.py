"""Memory that is nearly gone, and processes the kernel killed for it."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 10.0, 3
WARNING_FRACTION, ERROR_FRACTION = 0.05, 0.01


@dataclass(frozen=True)
class Reading:
    available: int
    total: int


def read(node: Node) -> Reading:
    memory = psutil.virtual_memory()
    return Reading(memory.available, memory.total)


def judge(reading: Reading) -> Verdict:
    left = reading.available / reading.total
    detail = f"{reading.available / 2**20:.0f} MiB of {reading.total / 2**20:.0f} MiB available"
    return Verdict(
        "error" if left < ERROR_FRACTION else "warning" if left < WARNING_FRACTION else "healthy",
        detail,
    )
