"""The schedules in the table, and what calls at their times."""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import Protocol

from trainyard.domain.schedule_records import Schedule
from trainyard.outside.pages import Page


class Schedules(Protocol):
    """Schedules."""

    def create(self, schedule: Schedule) -> Schedule:
        """Conditional on no schedule of that name that is not Deleted.

        Raises errors.ScheduleExists.
        """
        ...

    def get(self, name: str) -> Schedule:
        """Raises errors.ScheduleNotFound, errors.RecordUnreadable."""
        ...

    def put(self, schedule: Schedule) -> Schedule:
        """As Runs.put."""
        ...

    def list(self, *, limit: int, token: str | None) -> Page[Schedule]:
        """As Runs.list, without those that are Deleted."""
        ...

    def active(self) -> builtins.list[Schedule]:
        """Every one that is not Deleted, or that EventBridge Scheduler still may have."""
        ...


class Scheduler(Protocol):
    """EventBridge Scheduler: it calls the function of steps when a schedule is due."""

    def place(self, schedule: Schedule, begins: datetime | None) -> None:
        """Make or change it to be as the record says; `begins`: when a rate is due next."""
        ...

    def remove(self, name: str) -> None:
        """Remove it if it is there."""
        ...
