"""The step that EventBridge Scheduler asks for: a schedule is due."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from trainyard.app.machines.inputs import StepInput
from trainyard.app.runs.fire_schedule import fire_schedule
from trainyard.domain.errors import ScheduleNotFound
from trainyard.ports import Ports


def fire(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Again changes nothing. A schedule that is gone, or another of its name, is no error."""
    at = datetime.fromisoformat(given.scheduled_at.replace("Z", "+00:00"))
    try:
        firing = fire_schedule(ports, given.schedule_name, given.generation, at, late=False)
    except ScheduleNotFound:
        return {"outcome": "skipped", "reason": "There is no such schedule any more."}
    return {"outcome": firing.outcome, "runId": firing.run_id, "reason": firing.reason}
