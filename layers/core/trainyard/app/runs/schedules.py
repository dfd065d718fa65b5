"""Schedules as people ask for them: created, paused, resumed and deleted.

The record is written first, then EventBridge Scheduler is made to be like it; the sweep does the
second where somebody died in between. A record says that nobody knows what is there ('?') before
anything is asked for, so that what a dead process left is removed with the schedule.
"""

from __future__ import annotations

import hashlib
import json

from trainyard.app.runs.code_checks import check_code
from trainyard.app.runs.inputs import check_inputs
from trainyard.app.runs.start_from import check_start
from trainyard.app.runs.submit_run import check_cluster
from trainyard.domain import schedules
from trainyard.domain.errors import ConflictError, ScheduleExists, ScheduleNotFound
from trainyard.domain.schedule_records import UNKNOWN, Schedule, ScheduleStatus
from trainyard.ports import Ports
from trainyard_contracts.people import Person
from trainyard_contracts.schedules import ScheduleSpec

#: The record is written by each firing, too.
_TRIES = 8


def create_schedule(ports: Ports, spec: ScheduleSpec, *, by: Person | None = None) -> Schedule:
    """The same spec again answers with the same schedule. Raises ScheduleExists, and what
    submit_run raises.
    """
    made = new_schedule(ports, spec, by)
    for run in spec.chain:
        cluster = check_cluster(ports, run)
        check_code(ports, run)
        check_start(ports, run, cluster)
        check_inputs(ports, run)
    try:
        stored = ports.schedules.create(made)
    except ScheduleExists:
        stored = ports.schedules.get(spec.name)
        if stored.body_hash != made.body_hash:
            raise
    return placed(ports, stored)


def new_schedule(ports: Ports, spec: ScheduleSpec, by: Person | None) -> Schedule:
    """The record as it would be stored."""
    now = ports.clock.now()
    return Schedule(
        name=spec.name,
        spec=spec,
        created_at=now,
        created_by=by,
        updated_at=now,
        since=now,
        placed=UNKNOWN,
        body_hash=_hash(spec),
    )


def pause_schedule(ports: Ports, name: str) -> Schedule:
    """No run is submitted until it is resumed. Twice is the same as once."""
    return _with_status(ports, name, "Paused")


def resume_schedule(ports: Ports, name: str) -> Schedule:
    """Its next time counts again; those of the pause do not."""
    return _with_status(ports, name, "Active")


def delete_schedule(ports: Ports, name: str) -> Schedule:
    """Runs that it submitted go on."""
    return _with_status(ports, name, "Deleted")


def shown(ports: Ports, name: str) -> Schedule:
    """Raises ScheduleNotFound, also for one that is deleted."""
    found = ports.schedules.get(name)
    if found.status == "Deleted":
        raise ScheduleNotFound.of(name)
    return found


def placed(ports: Ports, schedule: Schedule) -> Schedule:
    """Make EventBridge Scheduler like the record. Again changes nothing.

    Who finds the record changed by others afterwards has perhaps undone what they asked for, and
    asks again. Raises ConflictError if others keep changing it.
    """
    if schedule.placed == schedules.wanted(schedule):
        return schedule
    for _ in range(_TRIES):
        _ask(ports, schedule)
        try:
            return ports.schedules.put(schedule.changed(placed=schedules.wanted(schedule)))
        except ConflictError:
            schedule = ports.schedules.get(schedule.name)
    raise ConflictError(f"schedule {schedule.name} is changed by many at once")


def misplaced(ports: Ports, schedule: Schedule) -> Schedule:
    """EventBridge Scheduler has not what the record says; the sweep puts it right."""
    return ports.schedules.put(schedule.changed(placed=UNKNOWN, closed=False))


def closed(ports: Ports, schedule: Schedule) -> Schedule:
    """A schedule that was deleted long ago is removed once more, and that is the end of it.

    A process that died late may have placed it after the first removal.
    """
    asked = ports.clock.now() - schedule.updated_at
    if schedule.status != "Deleted" or schedule.closed or asked < schedules.STRAGGLERS:
        return schedule
    ports.scheduler.remove(schedule.name)
    return ports.schedules.put(schedule.changed(closed=True))


def _ask(ports: Ports, schedule: Schedule) -> None:
    if not schedules.wanted(schedule):
        ports.scheduler.remove(schedule.name)
        return
    now, rate = ports.clock.now(), schedule.spec.rate is not None
    ports.scheduler.place(schedule, schedules.due_after(schedule, now) if rate else None)


def _with_status(ports: Ports, name: str, status: ScheduleStatus) -> Schedule:
    schedule = ports.schedules.get(name)
    if schedule.status == status:
        return placed(ports, schedule)
    if schedule.status == "Deleted":
        raise ScheduleNotFound.of(name)
    since = ports.clock.now() if status == "Active" else schedule.since
    changed = schedule.changed(status=status, since=max(schedule.since, since))
    return placed(ports, ports.schedules.put(changed))


def _hash(spec: ScheduleSpec) -> str:
    asked = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
