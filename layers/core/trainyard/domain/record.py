"""What all records are, and what many of them have."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from trainyard_contracts.base import Lenient


class Record(Lenient):
    """What the table stores; a later version may have written it."""


class Problem(Record):
    """Why something ended badly: `code` is one of domain.problems, `next_step` is what to do."""

    code: str
    title: str
    detail: str
    next_step: str


class TimelineEntry(Record):
    """One line of a run's timeline: a fact, a decision with its reason, or a change of status."""

    id: str
    at: datetime
    kind: Literal["fact", "decision", "status"]
    type: str
    message: str
    attempt: int | None = None
    data: dict[str, Any] = Field(default_factory=dict)
