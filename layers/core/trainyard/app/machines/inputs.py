"""What a state machine hands to a step, and how a step waits.

The machine's token is stored first; a recorded fact wakes the machine by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from trainyard.domain.records import Run, Wait, WaitKind
from trainyard.ports import Ports


@dataclass(frozen=True)
class StepInput:
    """Payload of StepsFunction (docs/reference/state-machines.md).

    `token` is there only in waits, `error` only in trouble. `entered_at` (in both) is when the
    state machine entered the state, a microsecond more for each retry: the same for every delivery
    of the same call, later for every later one. `spent` (in decide): events of the execution's
    history, about. `schedule_name` and `scheduled_at` are there in fire-schedule only.
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
    schedule_name: str = ""
    scheduled_at: str = ""

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
            schedule_name=str(event.get("scheduleName") or ""),
            scheduled_at=str(event.get("scheduledAt") or ""),
        )


def _entered(event: Mapping[str, Any]) -> datetime | None:
    """When the execution entered the state; None if its definition does not send that yet."""
    if not event.get("enteredAt"):
        return None
    return datetime.fromisoformat(str(event["enteredAt"]).replace("Z", "+00:00")) + timedelta(
        microseconds=int(event.get("retry") or 0)
    )


def store_wait(ports: Ports, owner: str, kind: WaitKind, given: StepInput) -> None:
    """Store the token first; the caller then looks once more, so that no wake-up is lost.

    An invocation that Step Functions gave up and repeated may come here late. Its token must not
    replace the newer one, so its wait is ended at once. That does no harm: the token is spent, or
    its machine decides and waits again.
    """
    since = given.entered_at or ports.clock.now()
    if not ports.waits.store(Wait(owner=owner, kind=kind, token=given.token, since=since)):
        ports.executions.succeed(given.token, {})


def superseded(ports: Ports, run: Run, generation: int, token: str) -> bool:
    """Whether a newer execution owns the run.

    Then it waits under the run's name, and our late token must not replace its own.
    """
    if generation >= run.generation:
        return False
    ports.executions.succeed(token, {})
    return True


def done(ports: Ports, owner: str, token: str) -> None:
    """End our own wait at once, because what we would wait for is already there."""
    ports.executions.succeed(token, {})
    ports.waits.clear(owner, token)
