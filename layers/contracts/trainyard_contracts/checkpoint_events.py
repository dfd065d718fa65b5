"""What agents report of checkpoints: whole, torn, removed and put back."""

from datetime import timedelta

from pydantic import AwareDatetime, Field
from typing_extensions import Self

from .event_bases import RunEvent


class CheckpointCommitted(RunEvent):
    """A checkpoint was committed and every hash in its manifest verified by the agent."""

    step: int
    path: str = Field(description="relative to the run's directory")
    bytes: int
    files: int
    committed_at: AwareDatetime
    source: str = Field(
        default="",
        description="of a copy: the program's own file or directory, relative to the run's",
    )
    counted: bool = Field(
        default=False, description="the step is not known: it counts the copies of this name"
    )

    def moved(self, shift: timedelta) -> Self:
        return super().moved(shift).changed(committed_at=self.committed_at + shift)


class CheckpointRejected(RunEvent):
    """A checkpoint does not verify; it will not be resumed from."""

    step: int
    path: str
    reason: str
    counted: bool = Field(
        default=False, description="the step is not known: it counts the copies of this name"
    )


class CheckpointPruned(RunEvent):
    """A whole checkpoint was removed to make room; newer ones are there."""

    step: int
    path: str


class CheckpointRestored(RunEvent):
    """Before the attempt was submitted, a program's own checkpoint was put back or set aside."""

    source: str = Field(description="the program's file or directory, relative to the run's")
    path: str = Field(default="", description="of the copy that was put back; '' = there was none")
    step: int | None = Field(default=None, description="of that copy")
    counted: bool = Field(
        default=False, description="the step is not known: it counts the copies of this name"
    )
    reason: str = Field(description="what was wrong with the program's own")
    set_aside: str = Field(default="", description="where the program's own is now")


class WatchWarned(RunEvent):
    """A program's checkpoints are not kept safe as the spec asks; once for each reason."""

    reason: str
