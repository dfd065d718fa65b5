"""When a run saves its state, and with which checkpoint it begins."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from . import places
from .base import RelativePath, RunId, Strict
from .watching import WatchSpec


class StartSpec(Strict):
    """A whole checkpoint of another run.

    It must lie on the same shared filesystem, or in the verified export of a run that was on a
    cluster of this run's cluster's name.
    """

    run: RunId = Field(description="whose checkpoint it is")
    step: int = Field(ge=0, le=10**13, description="of one of its whole checkpoints")


class CheckpointSpec(Strict):
    """When the trainer commits checkpoints and how many are kept on the cluster."""

    directory: RelativePath = Field(
        default=places.CHECKPOINTS,
        description="relative to the run's directory on the shared filesystem",
    )
    every_seconds: Annotated[float, Field(gt=0, le=86400)] | Literal["auto"] | None = Field(
        default=None,
        description="a checkpoint is due so long after the last; 'auto': the interval that loses "
        "least, from what a save costs and secondsBetweenFailures",
    )
    seconds_between_failures: float = Field(
        default=86400,
        ge=60,
        le=366 * 86400,
        description="expected between two failures of the whole job; used by everySeconds 'auto'",
    )
    every_steps: int | None = Field(
        default=None, ge=1, description="a checkpoint is due at every multiple of so many steps"
    )
    keep: int = Field(
        default=3, ge=2, le=1000, description="newest whole checkpoints kept on the cluster"
    )
    start_from: StartSpec | None = Field(
        default=None,
        description="the run begins with this checkpoint, as if it were its own; default: with "
        "none",
    )
    watch: WatchSpec | None = Field(
        default=None,
        description="of a program that writes checkpoints in its own way: what they are called; "
        "the agent verifies and copies them, and puts the newest whole one back where the "
        "program's own is torn or missing",
    )

    @field_validator("every_seconds", mode="before")
    @classmethod
    def _every_seconds(cls, value: object) -> object:
        # A union's own errors would name its members, which nobody wrote.
        number = (
            isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 86400
        )
        if value is None or value == "auto" or number:
            return value
        raise ValueError("must be a number of seconds greater than 0 and at most 86400, or 'auto'")
