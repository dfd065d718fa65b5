"""When a schedule is due, and what its record becomes then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from trainyard.domain.schedule_records import MOST_FIRINGS, Firing, Schedule
from trainyard_contracts.cron import Cron, Rate, zone_of

#: EventBridge Scheduler fires within the minute, and its event may be tried again for some.
GRACE = timedelta(minutes=5)
#: Where a missed time is looked for first.
LOOK_BACK = timedelta(hours=2)
#: A process that began to place a schedule before it was deleted is dead after this: Lambda ends
#: each at 15 minutes.
STRAGGLERS = timedelta(minutes=20)


def minute_of(moment: datetime) -> datetime:
    """Times of schedules are whole minutes."""
    return moment.replace(second=0, microsecond=0)


def due_after(schedule: Schedule, moment: datetime) -> datetime | None:
    """The next time it is due."""
    spec = schedule.spec
    if spec.cron is not None:
        return Cron.of(spec.cron).after(moment, zone_of(spec.timezone))
    return Rate.of(spec.rate or "").after(moment, minute_of(schedule.created_at))


def next_times(schedule: Schedule, now: datetime, count: int) -> Iterator[datetime]:
    """The next times at which an active schedule is due."""
    moment: datetime | None = now
    for _ in range(count if schedule.status == "Active" else 0):
        moment = due_after(schedule, moment) if moment is not None else None
        if moment is None:
            return
        yield moment


def missed(schedule: Schedule, now: datetime) -> datetime | None:
    """The newest time at which it was due and nobody said so; None if there is none.

    Of several that were missed the older ones are let go.
    """
    if schedule.status != "Active":
        return None
    end = now - GRACE
    # One that is often due is not counted through months of silence.
    return _newest(schedule, max(schedule.since, end - LOOK_BACK), end) or _newest(
        schedule, schedule.since, end
    )


def _newest(schedule: Schedule, begin: datetime, end: datetime) -> datetime | None:
    found, due = None, due_after(schedule, begin)
    while due is not None and due <= end:
        found, due = due, due_after(schedule, due)
    return found


def is_new(schedule: Schedule, at: datetime) -> bool:
    """Whether this time is still to be acted upon: events come twice, and late."""
    return schedule.status == "Active" and at > schedule.since


def fired(schedule: Schedule, firing: Firing) -> Schedule:
    return schedule.changed(
        firings=[*schedule.firings, firing][-MOST_FIRINGS:],
        since=max(schedule.since, firing.at),
        going=[*firing.after, *firing.runs],
    )


def made(schedule: Schedule, firing: Firing) -> Schedule:
    """With what became of a firing that was recorded before its runs were made."""
    return schedule.changed(
        firings=[firing if one.at == firing.at else one for one in schedule.firings]
    )


def wanted(schedule: Schedule) -> str:
    """What EventBridge Scheduler is to have; '' for none. Changed, it is asked for again."""
    if schedule.status == "Deleted":
        return ""
    spec = schedule.spec
    return f"{schedule.generation} {schedule.status} {spec.expression} {spec.timezone}"
