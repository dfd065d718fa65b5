"""A schedule is due: submit its runs, or say why not.

The runs' ids follow from the schedule and the time, so that a time which comes twice, from the
sweep and from EventBridge Scheduler, has its runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.submit_run import submit_scheduled
from trainyard.domain import names, schedules
from trainyard.domain.errors import RunFinished, RunNotFound, TrainyardError
from trainyard.domain.records import Run
from trainyard.domain.schedule_records import Firing, Schedule
from trainyard.ports import Ports


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
    if before and (reason := _left_out(before, schedule, overlap)):
        return Firing(at=at, outcome="skipped", reason=reason)
    if overlap == "replace":
        for run in reversed(before):  # what follows first: it shall not end by its parent's end
            _cancel(ports, run)
    return _submitted(ports, schedule, [run.id for run in before], at)


def _left_out(before: Sequence[Run], schedule: Schedule, overlap: str) -> str:
    """Why there is no run; '' where there is one."""
    first = before[0]
    if overlap == "skip":
        return f"Run {first.id} of an earlier time is {first.status}."
    if overlap == "queue" and first.id == schedule.last_runs[0] and first.status == "Waiting":
        return f"Run {first.id} of an earlier time waits already."
    return ""


def _submitted(ports: Ports, schedule: Schedule, before: Sequence[str], at: datetime) -> Firing:
    chain = schedule.spec.chain
    ids = {
        spec.name: names.scheduled_run_id(schedule.key, at, number)
        for number, spec in enumerate(chain)
    }
    run_ids = list(ids.values())
    specs = {ids[spec.name]: spec.with_ids(ids, before) for spec in chain}
    try:
        submit_scheduled(ports, specs, schedule=schedule.name, by=schedule.created_by)
    except TrainyardError as refused:
        if refused.retryable:
            raise
        # A process that died here may have made the first of them.
        for run in reversed(_going(ports, run_ids)):
            _cancel(ports, run)
        return Firing(at=at, outcome="refused", reason=refused.detail[:1000])
    return Firing(at=at, outcome="submitted", run_id=run_ids[0], run_ids=run_ids)


def _active(ports: Ports, schedule: Schedule) -> list[Run]:
    """Those of its newest runs that go on."""
    return _going(ports, schedule.last_runs)


def _going(ports: Ports, run_ids: Sequence[str]) -> list[Run]:
    found = []
    for run_id in run_ids:
        try:
            run = ports.runs.get(run_id)
        except RunNotFound:
            continue
        if not run.terminal:
            found.append(run)
    return found


def _cancel(ports: Ports, run: Run) -> None:
    try:
        cancel_run(ports, run.id)
    except RunFinished:
        return
