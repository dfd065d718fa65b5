"""What a state machine hands to a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any


@dataclass(frozen=True)
class StepInput:
    """Payload of StepsFunction (docs/reference/state-machines.md).

    `token` is there only in waits, `error` only in trouble. `entered_at` (in both) is when the
    state machine entered the state, a microsecond more for each retry: the same for every delivery
    of the same call, later for every later one. `spent` (in decide): events of the execution's
    history, about.
    """

    step: str
    run_id: str = ""
    cluster_name: str = ""
    generation: int = 1
    token: str = ""
    action: Mapping[str, Any] = field(default_factory=dict)
    failed_step: str = ""
    error: Mapping[str, Any] = field(default_factory=dict)
    entered_at: datetime | None = None
    spent: int = 0

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> StepInput:
        """Read the event of a Lambda task."""
        return cls(
            step=str(event["step"]),
            run_id=str(event.get("runId") or ""),
            cluster_name=str(event.get("clusterName") or ""),
            generation=int(event.get("generation") or 1),
            token=str(event.get("token") or ""),
            action=event.get("action") or {},
            failed_step=str(event.get("failedStep") or ""),
            error=event.get("error") or {},
            entered_at=_entered(event),
            spent=int(event.get("spent") or 0),
        )


def _entered(event: Mapping[str, Any]) -> datetime | None:
    """None of an execution whose definition is older than this."""
    if not event.get("enteredAt"):
        return None
    return datetime.fromisoformat(str(event["enteredAt"]).replace("Z", "+00:00")) + timedelta(
        microseconds=int(event.get("retry") or 0)
    )
