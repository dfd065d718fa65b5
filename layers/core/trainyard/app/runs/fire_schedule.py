"""A schedule is due: submit its run, or say why not.

The run's id follows from the schedule and the time, and the record names the run before it is
made. So a time which comes twice, from the sweep and from EventBridge Scheduler, has one run, and
the next time knows of it wherever a process died.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.schedules import misplaced
from trainyard.app.runs.submit_run import submit_scheduled
from trainyard.domain import names, schedules
from trainyard.domain.errors import RunFinished, RunNotFound, TrainyardError
from trainyard.domain.records import Run
from trainyard.domain.schedule_records import Firing, Schedule
from trainyard.ports import Ports


def fire_schedule(ports: Ports, name: str, generation: int, at: datetime, *, late: bool) -> Firing:
    """Raises ScheduleNotFound, RetryableError, ConflictError."""
    schedule, at = ports.schedules.get(name), schedules.minute_of(at)
    if schedule.generation == generation:  # what an earlier time still lacks comes first
        schedule = with_runs(ports, schedule)
        known = next((one for one in schedule.firings if one.at == at), None)
        if known is not None:
            return known
    if schedule.generation != generation or not schedules.is_new(schedule, at):
        if schedule.generation != generation or schedule.status == "Deleted":
            misplaced(ports, schedule)
        return Firing(at=at, outcome="skipped", reason=f"It is {schedule.status}, or this is old.")
    firing = _decided(ports, schedule, at).changed(late=late)
    schedule = with_runs(ports, ports.schedules.put(schedules.fired(schedule, firing)))
    return next(one for one in schedule.firings if one.at == at)


def with_runs(ports: Ports, schedule: Schedule) -> Schedule:
    """Make each run that a firing names and that is not there yet. Again changes nothing.

    Raises RetryableError, ConflictError.
    """
    for firing in schedule.firings:
        if not firing.made:
            settled = _submitted(ports, schedule, firing)
            schedule = ports.schedules.put(schedules.made(schedule, settled))
    return schedule


def _decided(ports: Ports, schedule: Schedule, at: datetime) -> Firing:
    """What becomes of this time. It is stored before the run is made, so there is one answer."""
    going = _going(ports, schedule)
    after = [run.id for run in going]
    if reason := _left_out(going, schedule.spec.overlap):
        return Firing(at=at, outcome="skipped", reason=reason, after=after)
    run_id = names.scheduled_run_id(schedule.key, at)
    return Firing(at=at, outcome="submitted", run_id=run_id, after=after, made=False)


def _left_out(going: Sequence[Run], overlap: str) -> str:
    """Why there is no run; '' where there is one."""
    if overlap == "skip" and going:
        return f"Run {going[-1].id} of an earlier time is {going[-1].status}."
    waiting = next((run for run in going if run.status == "Waiting"), None)
    if overlap == "queue" and waiting is not None:
        return f"Run {waiting.id} of an earlier time waits already."
    return ""


def _submitted(ports: Ports, schedule: Schedule, firing: Firing) -> Firing:
    run_id, spec = firing.run_id, schedule.spec.run
    assert run_id is not None, firing  # else it would be made
    if schedule.spec.overlap == "replace":
        for before in firing.after:
            _cancel(ports, before)
    if firing.after:
        spec = spec.changed(after=firing.after, after_policy="end")
    try:
        submit_scheduled(ports, spec, run_id=run_id, schedule=schedule.name, by=schedule.created_by)
    except TrainyardError as refused:
        if refused.retryable:
            raise
        reason = refused.detail[:1000]
        return firing.changed(outcome="refused", run_id=None, reason=reason, made=True)
    return firing.changed(made=True)


def _going(ports: Ports, schedule: Schedule) -> list[Run]:
    """Each of its runs that goes on, oldest first.

    One that waits may have been cancelled while the one before it still trains, and firings that
    were skipped push older ones out of the record.
    """
    last = [schedule.last_run] if schedule.last_run is not None else []
    found = [_run(ports, run_id) for run_id in dict.fromkeys([*schedule.going, *last])]
    return [run for run in found if run is not None and not run.terminal]


def _run(ports: Ports, run_id: str) -> Run | None:
    try:
        return ports.runs.get(run_id)
    except RunNotFound:
        return None


def _cancel(ports: Ports, run_id: str) -> None:
    try:
        cancel_run(ports, run_id)
    except RunFinished:
        return
