"""What became of an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.domain.facts import run_of, type_of
from trainyard_contracts.events import AgentEvent


@dataclass(frozen=True)
class Recorded:
    """What became of an event: `recorded` or `dropped`, and why.

    A dropped event changed nothing and is not retried.
    """

    result: str
    reason: str
    type: str = ""
    fact_id: str = ""
    cluster: str = ""
    run: str = ""
    woken: tuple[str, ...] = ()


def malformed(found: Sequence[Mapping[str, Any]]) -> str:
    fields = ", ".join(".".join(map(str, item["loc"])) for item in found[:5])
    return f"malformed: {fields}"


def dropped(event: AgentEvent, reason: str) -> Recorded:
    return Recorded(
        "dropped",
        reason,
        type_of(event),
        event.id,
        event.cluster_name,
        run_of(event) or "",
    )
