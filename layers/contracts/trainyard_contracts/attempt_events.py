"""What agents report of an attempt that waits, starts and makes its steps."""

from datetime import timedelta

from pydantic import AwareDatetime, Field
from typing_extensions import Self

from .base import Lenient
from .event_bases import RunEvent


class JobAhead(Lenient):
    """Another job that an attempt waits for: it holds nodes, or is ahead in Slurm's queue."""

    job_id: str
    user: str
    nodes: list[str] = Field(
        default_factory=list, description="Slurm nodes that it holds; none while it waits, too"
    )


class AttemptQueued(RunEvent):
    """The attempt's job waits in Slurm's queue; at most once a minute while jobs are ahead."""

    job_id: str
    reason: str = Field(
        default="", description="Slurm's own word: Resources, Priority, ReqNodeNotAvail, ..."
    )
    ahead: list[JobAhead] = Field(
        default_factory=list, description="20 at most, those that hold nodes first"
    )


class AttemptStarted(RunEvent):
    """The scheduler started the attempt's job on these Slurm nodes."""

    job_id: str
    nodes: list[str]
    waits_for: list[str] = Field(
        default_factory=list,
        description="those of them that are still being set up, for which the job waits",
    )


class AttemptStepped(RunEvent):
    """The attempt finished its first training step."""

    step: int
    resumed_from: int | None = None
    stepped_at: AwareDatetime
    source: str = Field(
        default="program",
        description="who said so: the program itself, its log, or TensorBoard's or MLflow's files",
    )

    def moved(self, shift: timedelta) -> Self:
        return super().moved(shift).changed(stepped_at=self.stepped_at + shift)
