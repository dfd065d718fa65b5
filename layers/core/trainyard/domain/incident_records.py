"""A failure of a run, and when training went on."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.record import Record


class Incident(Record):
    """From the first bad fact to the first training step after it.

    Where a program tells no step, it lasts until the program started again and lived.
    """

    cause: str
    attempt: int
    life: int = 1
    fact_id: str
    started_at: datetime
    actions: list[str] = Field(default_factory=list)
    reason: str = ""
    error_signature: str | None = Field(
        default=None, description="error text and step, to recognise the same error again"
    )
    node: str | None = None
    resumed_at: datetime | None = None
    resumed_by: Literal["step", "start"] = Field(
        default="step",
        description="start: its program tells no step, so resumed_at is when the program started "
        "again, and no time of a recovery",
    )
