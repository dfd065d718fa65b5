"""The attempts of a run, and what is done behind its back."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.record import Record


class Action(Record):
    """What the run's machine must still do about nodes or the job; repeating it is harmless."""

    id: str
    kind: Literal["replace", "cancel-job", "exclude", "leave"]
    node: str = Field(default="", description="Slurm name of the node")
    instance_id: str = ""
    attempt: int | None = Field(
        default=None, description="of an exclude: the attempt whose job waits in Slurm's queue"
    )
    nodes: list[str] = Field(
        default_factory=list,
        description="of an exclude: all Slurm nodes that this job must not use",
    )
    reason: str = ""


class Attempt(Record):
    """One submission of the run's job; everything it writes is fenced by `number` (from 1)."""

    number: int
    generation: int = 1
    life: int = Field(default=1, description="Run.life it belongs to; budgets count within a life")
    fetching_since: datetime | None = Field(
        default=None, description="when its submission began to wait for the run's inputs"
    )
    submitted_at: datetime | None = None
    job_id: str | None = None
    nodes: list[str] = Field(default_factory=list)
    started_at: datetime | None = None
    first_step_at: datetime | None = None
    resumed_from: int | None = Field(
        default=None, description="step of the checkpoint that its program says it went on from"
    )
    began_with: str = Field(
        default="",
        description="the newest whole checkpoint that was there when its job began: 'step 40', or "
        "'copy 3' of one whose step is not known; '': none is known",
    )
    ended_at: datetime | None = None
    outcome: Literal["succeeded", "failed", "cancelled", "lost"] | None = None
    reason: str = ""
    wanting: bool = Field(
        default=False, description="AWS had no nodes for it: it is none of recovery.maxAttempts"
    )
    exclude: list[str] = Field(default_factory=list)
    down: list[str] = Field(default_factory=list)
    waited_since: datetime | None = Field(
        default=None, description="when the run began to wait for the node that it got then"
    )

    @property
    def waits(self) -> bool:
        """Submitted, and not started as far as is known."""
        return self.submitted_at is not None and self.started_at is None and self.ended_at is None
