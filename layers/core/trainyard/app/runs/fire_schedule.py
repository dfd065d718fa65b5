"""A schedule is due: submit its run, or say why not.

The run's id follows from the schedule and the time, so that a time which comes twice, from the
sweep and from EventBridge Scheduler, has one run.
"""

from __future__ import annotations

from datetime import datetime

from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.submit_run import submit_scheduled
from trainyard.domain import names, schedules
from trainyard.domain.errors import RunFinished, RunNotFound, TrainyardError
from trainyard.domain.records import Run
from trainyard.domain.schedule_records import Firing, Schedule
from trainyard.ports import Ports
from trainyard_contracts.specs import RunSpec


def fire_schedule(ports: Ports, name: str, generation: int, at: datetime, *, late: bool) -> Firing:
    """Raises ScheduleNotFound, RetryableError, ConflictError."""
    schedule, at = ports.schedules.get(name), schedules.minute_of(at)
    known = next((one for one in schedule.firings if one.at == at), None)
    if known is not None:
        return known
    if schedule.generation != generation or not schedules.is_new(schedule, at):
        return Firing(at=at, outcome="skipped", reason=f"It is {schedule.status}, or this is old.")
    firing = _fired(ports, schedule, at).changed(late=late)
    ports.schedules.put(schedules.fired(schedule, firing))
    return firing


def _fired(ports: Ports, schedule: Schedule, at: datetime) -> Firing:
    before, overlap = _active(ports, schedule), schedule.spec.overlap
    spec = schedule.spec.run
    if before is not None and (reason := _left_out(before, overlap)):
        return Firing(at=at, outcome="skipped", reason=reason)
    if before is not None:
        if overlap == "replace":
            _cancel(ports, before)
        spec = spec.changed(after=[before.id], after_policy="end")
    return _submitted(ports, schedule, spec, at)


def _left_out(before: Run, overlap: str) -> str:
    """Why there is no run; '' where there is one."""
    if overlap == "skip":
        return f"Run {before.id} of an earlier time is {before.status}."
    if overlap == "queue" and before.status == "Waiting":
        return f"Run {before.id} of an earlier time waits already."
    return ""


def _submitted(ports: Ports, schedule: Schedule, spec: RunSpec, at: datetime) -> Firing:
    run_id = names.scheduled_run_id(schedule.key, at)
    try:
        submit_scheduled(ports, spec, run_id=run_id, schedule=schedule.name, by=schedule.created_by)
    except TrainyardError as refused:
        if refused.retryable:
            raise
        return Firing(at=at, outcome="refused", reason=refused.detail[:1000])
    return Firing(at=at, outcome="submitted", run_id=run_id)


def _active(ports: Ports, schedule: Schedule) -> Run | None:
    """Its newest run, while that goes on."""
    if schedule.last_run is None:
        return None
    try:
        run = ports.runs.get(schedule.last_run)
    except RunNotFound:
        return None
    return None if run.terminal else run


def _cancel(ports: Ports, run: Run) -> None:
    try:
        cancel_run(ports, run.id)
    except RunFinished:
        return
