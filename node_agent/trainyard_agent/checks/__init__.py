"""Node checks, one a file: `read` looks at the node and judges nothing, `judge` is pure.

A new file here is a new check.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from trainyard_agent.host.accelerators import Accelerators
from trainyard_contracts.agent_config import AgentConfig

Severity = Literal["healthy", "warning", "error"]


@dataclass(frozen=True)
class Verdict:
    """What a check thinks of one reading; `detail` says it in words with numbers."""

    severity: Severity
    detail: str


@dataclass(frozen=True)
class Node:
    """What a check may look at."""

    config: AgentConfig
    accelerators: Accelerators


@dataclass(frozen=True)
class Check:
    """A check's module.

    `read(node)` gives a reading, or None where the check does not apply. `judge(reading)` gives a
    verdict.
    """

    name: str
    every_seconds: float
    confirm: int
    read: Callable[[Node], Any]
    judge: Callable[[Any], Verdict]


def discover() -> list[Check]:
    """Every module of this package.

    EVERY_SECONDS: how often; CONFIRM: how many equal verdicts in a row make it true.
    """
    found = []
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda item: item.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        found.append(
            Check(
                info.name.replace("_", "-"),
                module.EVERY_SECONDS,
                module.CONFIRM,
                module.read,
                module.judge,
            )
        )
    return found
