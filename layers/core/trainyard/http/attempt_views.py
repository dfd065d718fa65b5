"""What a run's attempts were, and what ended them."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.http.views import View


class Attempt(View):
    """One submission of the run's job."""

    number: int
    life: int = Field(description="Run.life it belongs to; budgets count within a life")
    submitted_at: datetime | None
    job_id: str | None
    nodes: list[str]
    started_at: datetime | None
    first_step_at: datetime | None
    resumed_from: int | None = Field(
        description="step of the checkpoint that its program says it went on from"
    )
    began_with: str = Field(
        description="the newest whole checkpoint that was there when its job began: 'step 40', or "
        "'copy 3' of one whose step is not known; '': none is known"
    )
    ended_at: datetime | None
    outcome: Literal["succeeded", "failed", "cancelled", "lost"] | None
    reason: str
    exclude: list[str]
    down: list[str]


class Incident(View):
    """From the first bad fact to the first training step after it.

    Where a program tells no step, it lasts until the program started again and lived.
    """

    cause: str
    attempt: int
    life: int
    started_at: datetime
    actions: list[str]
    reason: str
    node: str | None
    resumed_at: datetime | None
    resumed_by: Literal["step", "start"] = Field(
        description="start: its program tells no step, so resumedAt is when the program started "
        "again, and no time of a recovery"
    )
