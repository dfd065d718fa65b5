"""Computes from the API's answers about a run what a fault cost; pure, for demo and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Recovery:
    """One fault and what followed. None = it was not seen, so it did not happen."""

    fault_to_submit_seconds: float | None
    fault_to_resumed_step_seconds: float | None
    resumed_from: int | None
    steps_lost: int | None

    @property
    def complete(self) -> bool:
        return None not in (
            self.fault_to_submit_seconds,
            self.fault_to_resumed_step_seconds,
            self.resumed_from,
            self.steps_lost,
        )


def seconds_between(since: float, moment: str | None) -> float | None:
    """Seconds from an epoch time to an RFC 3339 moment."""
    return None if moment is None else round(datetime.fromisoformat(moment).timestamp() - since, 3)


def attempt(run: Json, number: int) -> Json | None:
    """The attempt of that number, if there is one yet."""
    return next((found for found in run["attempts"] if found["number"] == number), None)


def recovery(run: Json, *, number: int, fault_at: float, last_step: int) -> Recovery:
    """How attempt `number` followed the fault at `fault_at` (epoch seconds).

    No step beyond `last_step` was finished after the fault.
    """
    found = attempt(run, number) or {}
    resumed_from = found.get("resumedFrom")
    return Recovery(
        fault_to_submit_seconds=seconds_between(fault_at, found.get("submittedAt")),
        fault_to_resumed_step_seconds=seconds_between(fault_at, found.get("firstStepAt")),
        resumed_from=resumed_from,
        steps_lost=None if resumed_from is None else last_step - resumed_from,
    )


def newest_whole_step(checkpoints: Sequence[Json], *, attempts: set[int]) -> int | None:
    """Step of the newest checkpoint that these attempts committed; it may be pruned by now."""
    steps = [
        found["step"]
        for found in checkpoints
        if found["status"] != "rejected" and found["attempt"] in attempts
    ]
    return max(steps, default=None)
