"""A schedule is due: submit its runs, or say why not.

The runs' ids follow from the schedule and the time, and the record names the runs before they are
made. So a time which comes twice, from the sweep and from EventBridge Scheduler, has its runs once,
and the next time knows of them wherever a process died.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.owners import tell_admins, why_not
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
    """Make the runs that a firing names and that are not there yet. Again changes nothing.

    Raises RetryableError, ConflictError.
    """
    for firing in schedule.firings:
        if not firing.made:
            settled = _submitted(ports, schedule, firing)
            schedule = ports.schedules.put(schedules.made(schedule, settled))
    return schedule


def _decided(ports: Ports, schedule: Schedule, at: datetime) -> Firing:
    """What becomes of this time. It is stored before a run is made, so there is one answer."""
    going = _going(ports, [*schedule.going, *schedule.last_runs])
    after = [run.id for run in going]
    if reason := why_not(ports, schedule):
        tell_admins(ports, schedule, f"{schedule.key}/{at:%Y-%m-%dT%H:%M}", reason)
        return Firing(at=at, outcome="refused", reason=reason, after=after)
    if reason := _left_out(going, schedule.spec.overlap):
        return Firing(at=at, outcome="skipped", reason=reason, after=after)
    run_ids = list(_ids(schedule, at).values())
    return Firing(
        at=at, outcome="submitted", run_id=run_ids[0], run_ids=run_ids, after=after, made=False
    )


def _ids(schedule: Schedule, at: datetime) -> dict[str, str]:
    """The ids of this time's runs by the names in the spec, in the chain's order."""
    return {
        spec.name: names.scheduled_run_id(schedule.key, at, number)
        for number, spec in enumerate(schedule.spec.chain)
    }


def _left_out(going: Sequence[Run], overlap: str) -> str:
    """Why there is no run; '' where there is one."""
    if not going:
        return ""
    newest = next(run for run in going if names.same_moment(run.id, going[-1].id))
    if overlap == "skip":
        return f"Run {newest.id} of an earlier time is {newest.status}."
    if overlap == "queue" and not names.same_moment(going[0].id, newest.id):
        return f"Run {newest.id} of an earlier time waits already."
    return ""


def _submitted(ports: Ports, schedule: Schedule, firing: Firing) -> Firing:
    if schedule.spec.overlap == "replace":
        for before in reversed(firing.after):  # what follows first: its parent's end is no news
            why = f"schedule '{schedule.name}' is due again and begins another run."
            _cancel(ports, before, why)
    ids = _ids(schedule, firing.at)
    specs = {ids[one.name]: one.with_ids(ids, firing.after) for one in schedule.spec.chain}
    try:
        submit_scheduled(ports, specs, schedule=schedule.name, by=schedule.created_by)
    except TrainyardError as refused:
        if refused.retryable:
            raise
        # A process that died here may have made the first of them.
        for run in reversed(_going(ports, list(specs))):
            why = f"another run of the same time of schedule '{schedule.name}' was refused."
            _cancel(ports, run.id, why)
        reason = refused.detail[:1000]
        return firing.changed(outcome="refused", run_id=None, run_ids=[], reason=reason, made=True)
    return firing.changed(made=True)


def _going(ports: Ports, run_ids: Sequence[str]) -> list[Run]:
    """Those of the runs that are there and go on, oldest first.

    One that waits may have been cancelled while the one before it still trains, and firings that
    were skipped push older ones out of the record.
    """
    found = []
    for run_id in dict.fromkeys(run_ids):
        try:
            run = ports.runs.get(run_id)
        except RunNotFound:
            continue
        if not run.terminal:
            found.append(run)
    return found


def _cancel(ports: Ports, run_id: str, why: str) -> None:
    try:
        cancel_run(ports, run_id, reason=why)
    except RunFinished:
        return
