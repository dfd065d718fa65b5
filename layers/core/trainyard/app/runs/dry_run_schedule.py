"""Say when a schedule would submit what, and what that costs, and do none of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from trainyard.app.runs.dry_run import DryRun, dry_run_run
from trainyard.app.runs.plan_prices import Price, of_run, times, total
from trainyard.app.runs.refusals import Refusal, noted, tried
from trainyard.app.runs.schedules import new_schedule
from trainyard.domain import schedules
from trainyard.domain.errors import ScheduleExists, ScheduleNotFound
from trainyard.domain.schedule_records import Schedule
from trainyard.ports import Ports
from trainyard_contracts.base import read_stored
from trainyard_contracts.cron import zone_of
from trainyard_contracts.inputs import RunOutputs
from trainyard_contracts.people import Person
from trainyard_contracts.schedules import ChainedRun, ScheduleSpec
from trainyard_contracts.specs import RunSpec

#: So many of the times that come are shown.
TIMES = 5


@dataclass(frozen=True)
class SchedulePlan:
    """`times` are in UTC and, beside it, in the schedule's zone; `one` is the price of one time."""

    times: list[tuple[datetime, datetime]]
    runs: list[tuple[str, DryRun | None]]
    one: Price
    all: Price
    refused: list[Refusal]


def dry_run_schedule(ports: Ports, spec: ScheduleSpec, *, by: Person | None = None) -> SchedulePlan:
    """What it would do if this person created it. Nothing is written."""
    made, refused = new_schedule(ports, spec, by), list[Refusal]()
    _look_for_another(ports, made, refused)
    runs = [
        (one.name, tried(one.name, partial(_planned, ports, one, by), refused))
        for one in spec.chain
    ]
    zone = zone_of(spec.timezone)
    due = [(at, at.astimezone(zone)) for at in schedules.next_times(made, ports.clock.now(), TIMES)]
    price = total([of_run(plan) for _, plan in runs])
    return SchedulePlan(due, runs, price, times(price, len(due), 1), refused)


def _look_for_another(ports: Ports, made: Schedule, refused: list[Refusal]) -> None:
    try:
        known = ports.schedules.get(made.name)
    except ScheduleNotFound:
        return
    if known.status != "Deleted" and known.body_hash != made.body_hash:
        refused.append(noted("", ScheduleExists(f"a schedule named '{made.name}' exists")))


def _planned(ports: Ports, one: ChainedRun, by: Person | None) -> DryRun:
    """Without what it takes of runs of the same time, which have no ids yet."""
    inputs = [given for given in one.inputs if RunOutputs.of(given.source) is None]
    alone = one.changed(after=[], inputs=inputs)
    spec = read_stored(RunSpec, alone.model_dump_json(by_alias=True))
    return dry_run_run(ports, spec, by=by)
