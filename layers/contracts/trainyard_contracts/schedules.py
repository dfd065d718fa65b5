"""A run that is submitted again and again, at times that a person names."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from .base import Name, Strict, judged, rule
from .cron import Cron, Rate, zone_of
from .specs import RunSpec


def _cron(text: str) -> str:
    Cron.of(text)
    return text


def _rate(text: str) -> str:
    Rate.of(text)
    return text


def _zone(name: str) -> str:
    zone_of(name)
    return name


class ScheduleSpec(Strict):
    """When which run is submitted, and what happens while the one before it still trains."""

    name: Annotated[Name, StringConstraints(max_length=48)] = Field(
        description="of the schedule; each run's name is that of its spec"
    )
    cron: Annotated[str, StringConstraints(max_length=128), judged(_cron)] | None = Field(
        default=None,
        description="minute, hour, day of the month, month, day of the week: '0 2 * * *' is each "
        "night at 2",
    )
    rate: Annotated[str, StringConstraints(max_length=32), judged(_rate)] | None = Field(
        default=None, description="such as '6 hours', counted from the schedule's creation"
    )
    timezone: Annotated[str, StringConstraints(max_length=50), judged(_zone)] = Field(
        default="UTC",
        description="of cron, such as Europe/Berlin. An hour that a zone leaves out in spring has "
        "no run, and one that it has twice in autumn has one",
    )
    overlap: Literal["skip", "queue", "replace"] = Field(
        default="skip",
        description="while the run of an earlier time goes on. skip: no run; queue: the run begins "
        "after it, and one waits at most; replace: it is cancelled, and the run begins after that",
    )
    run: RunSpec = Field(description="what is submitted")

    @rule
    def _when(self) -> ScheduleSpec:
        if (self.cron is None) == (self.rate is None):
            raise ValueError("give one of 'cron' (such as '0 2 * * *') and 'rate' ('6 hours')")
        if self.rate is not None and self.timezone != "UTC":
            raise ValueError("timezone: a rate has none; remove it, or use cron")
        if self.run.after:
            raise ValueError(
                "run.after: a schedule's runs follow no others; use overlap for those before them"
            )
        return self

    @property
    def expression(self) -> str:
        """As EventBridge Scheduler reads it."""
        if self.cron is not None:
            return Cron.of(self.cron).expression()
        return Rate.of(self.rate or "").expression()
