"""Each minute: EventBridge Scheduler is as our records say, and no time of a schedule is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.app.runs.fire_schedule import fire_schedule, with_runs
from trainyard.app.runs.schedules import closed, misplaced, placed
from trainyard.app.sweep.swept import Swept
from trainyard.domain import schedules
from trainyard.domain.schedule_records import Schedule
from trainyard.ports import Ports


def stored_schedules(ports: Ports) -> Sequence[Schedule]:
    return ports.schedules.active()


def schedule_step(ports: Ports, schedule: Schedule) -> Iterator[Swept]:
    after = placed(ports, schedule)
    if after.placed != schedule.placed:
        what = f"EventBridge Scheduler has it as it is now: {after.status}"
        yield Swept("schedule placed", schedule.name, what)
    whole = with_runs(ports, after)
    if whole.version != after.version:
        yield Swept("schedule's run made", schedule.name, "its record named one that was not there")
    at = schedules.missed(whole, ports.clock.now())
    if at is not None:
        firing = fire_schedule(ports, whole.name, whole.generation, at, late=True)
        words = f"it was due at {at:%Y-%m-%d %H:%M} UTC and nobody said so: {firing.outcome}"
        yield Swept("schedule fired late", schedule.name, words)
        placed(ports, misplaced(ports, ports.schedules.get(schedule.name)))
    closed(ports, whole)
