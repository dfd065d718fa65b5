"""What the table stores of a schedule: what is wanted, and what became of each time it was due."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.records import Record
from trainyard_contracts.people import Person
from trainyard_contracts.schedules import ScheduleSpec

ScheduleStatus = Literal["Active", "Paused", "Deleted"]
#: The newest so many are kept.
MOST_FIRINGS = 50
#: As `placed`: nobody knows what EventBridge Scheduler has.
UNKNOWN = "?"


class Firing(Record):
    """One time at which the schedule was due."""

    at: datetime = Field(description="when it was due, whenever that was noticed")
    outcome: Literal["submitted", "skipped", "refused"]
    run_id: str | None = Field(default=None, description="the first of its runs")
    run_ids: list[str] = Field(
        default_factory=list, description="all of its runs; empty: of an older version"
    )
    reason: str = ""
    after: list[str] = Field(
        default_factory=list, description="runs of earlier times that went on then"
    )
    made: bool = Field(
        default=True,
        description="false: this record names the runs, which are made after it was written",
    )
    late: bool = Field(
        default=False, description="EventBridge Scheduler did not say it in time; the sweep did"
    )

    @property
    def runs(self) -> list[str]:
        """All of its runs, also where an older version kept one only."""
        return self.run_ids or ([self.run_id] if self.run_id is not None else [])


class Schedule(Record):
    """A schedule. The record is what is wanted; EventBridge Scheduler is made to be like it."""

    name: str
    spec: ScheduleSpec
    status: ScheduleStatus = "Active"
    generation: int = 1
    version: int = 0
    created_at: datetime
    created_by: Person | None = Field(default=None, description="null: of an older version")
    shared_with: list[str] = Field(
        default_factory=list, description="patterns of ARNs of others who may change it"
    )
    updated_at: datetime
    since: datetime = Field(
        description="a time that it is due counts if it comes after this: its creation, the end of "
        "a pause, or the newest firing"
    )
    placed: str = Field(
        default="",
        description="what EventBridge Scheduler was asked for last; '': nothing; '?': it may have "
        "anything",
    )
    closed: bool = Field(
        default=False,
        description="it is deleted, and nobody can be left who began to place it before",
    )
    going: list[str] = Field(
        default_factory=list, description="its runs that were not over at the newest firing"
    )
    firings: list[Firing] = Field(default_factory=list)
    body_hash: str = ""

    @property
    def key(self) -> str:
        """Of this very life of the name; runs have their ids by it."""
        return f"{self.name}/{self.generation}/{self.created_at.isoformat()}"

    @property
    def over(self) -> bool:
        """Nothing is left to be done for it."""
        made = all(firing.made for firing in self.firings)
        return self.status == "Deleted" and not self.placed and self.closed and made

    @property
    def last_runs(self) -> list[str]:
        """The runs that it submitted last, in their order."""
        for firing in reversed(self.firings):
            if firing.runs:
                return firing.runs
        return []
