"""Schedules as people ask for them: created, paused, resumed and deleted.

The record is written first, then EventBridge Scheduler is made to be like it; the sweep does the
second where somebody died in between.
"""

from __future__ import annotations

import hashlib
import json

from trainyard.app.runs.inputs import check_inputs
from trainyard.app.runs.start_from import check_start
from trainyard.app.runs.submit_run import check_cluster
from trainyard.app.runs.uploads import check_code
from trainyard.domain import schedules
from trainyard.domain.errors import ScheduleExists, ScheduleNotFound
from trainyard.domain.schedule_records import Schedule, ScheduleStatus
from trainyard.ports import Ports
from trainyard_contracts.people import Person
from trainyard_contracts.schedules import ScheduleSpec


def create_schedule(ports: Ports, spec: ScheduleSpec, *, by: Person | None = None) -> Schedule:
    """The same spec again answers with the same schedule. Raises ScheduleExists, and what
    submit_run raises.
    """
    now, asked = ports.clock.now(), _hash(spec)
    for run in spec.chain:
        cluster = check_cluster(ports, run)
        check_code(ports, run)
        check_start(ports, run, cluster)
        check_inputs(ports, run)
    made = Schedule(
        name=spec.name,
        spec=spec,
        created_at=now,
        created_by=by,
        updated_at=now,
        since=now,
        body_hash=asked,
    )
    try:
        stored = ports.schedules.create(made)
    except ScheduleExists:
        stored = ports.schedules.get(spec.name)
        if stored.body_hash != asked:
            raise
    return placed(ports, stored)


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
    """Make EventBridge Scheduler like the record. Again changes nothing."""
    wanted = schedules.wanted(schedule)
    if schedule.placed == wanted:
        return schedule
    if wanted:
        now = ports.clock.now()
        rate = schedule.spec.rate is not None
        ports.scheduler.place(schedule, schedules.due_after(schedule, now) if rate else None)
    else:
        ports.scheduler.remove(schedule.name)
    return ports.schedules.put(schedule.changed(placed=wanted))


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
