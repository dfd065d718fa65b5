"""What the API answers of schedules, field by field, in camelCase."""

from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from trainyard.domain import schedule_records as records
from trainyard.domain import schedules
from trainyard.http.views import View
from trainyard_contracts.people import Person
from trainyard_contracts.schedules import ScheduleSpec

#: So many of the times that come are shown.
NEXT_TIMES = 5


class FiringView(View):
    """One time at which the schedule was due."""

    at: datetime = Field(description="when it was due")
    outcome: Literal["submitted", "skipped", "refused"]
    run_id: str | None = Field(description="the first of its runs")
    run_ids: list[str] = Field(description="all of its runs, in the order of their submission")
    reason: str
    late: bool = Field(description="the sweep noticed it; EventBridge Scheduler did not say it")

    @classmethod
    def of_firing(cls, firing: records.Firing) -> Self:
        return cls.of(firing, run_ids=firing.runs)


class ScheduleSummary(View):
    """A schedule in a list, without its run's spec."""

    name: str
    status: Literal["Active", "Paused", "Deleted"]
    created_at: datetime
    created_by: Person | None = Field(description="null: of an older version")
    shared_with: list[str] = Field(description="patterns of ARNs of others who may change it")
    updated_at: datetime
    cron: str | None
    rate: str | None
    timezone: str
    overlap: Literal["skip", "queue", "replace"]
    next_at: datetime | None = Field(description="null while it is paused")
    last: FiringView | None = Field(description="the newest time at which it was due")

    @classmethod
    def of_schedule(cls, schedule: records.Schedule, now: datetime, **other: object) -> Self:
        spec, firings = schedule.spec, schedule.firings
        known = {
            "cron": spec.cron,
            "rate": spec.rate,
            "timezone": spec.timezone,
            "overlap": spec.overlap,
            "next_at": next(schedules.next_times(schedule, now, 1), None),
            "last": FiringView.of_firing(firings[-1]) if firings else None,
        }
        return cls.of(schedule, **{**known, **other})


class ScheduleView(ScheduleSummary):
    """A schedule, with the times that come and those that were."""

    spec: ScheduleSpec
    next_times: list[datetime]
    firings: list[FiringView] = Field(description="oldest first, the newest 50")

    @classmethod
    def whole(cls, schedule: records.Schedule, now: datetime) -> Self:
        return cls.of_schedule(
            schedule,
            now,
            next_times=list(schedules.next_times(schedule, now, NEXT_TIMES)),
            firings=[FiringView.of_firing(one) for one in schedule.firings],
        )


class SchedulePage(View):
    """One page of schedules, newest first."""

    schedules: list[ScheduleSummary]
    next_token: str | None
