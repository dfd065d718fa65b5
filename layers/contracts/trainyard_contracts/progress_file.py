"""How far a training is: the file that rank 0 of an attempt writes."""

from typing import Literal

from pydantic import Field

from .base import Lenient

#: The year 3000: a number beyond it is no time.
LATEST = 32503680000


class Progress(Lenient):
    """The last finished step; rank 0 replaces its attempt's `progress.json` atomically."""

    step: int = Field(ge=0, le=10**12)
    loss: float | None = None
    at: float = Field(ge=0, lt=LATEST, description="seconds since the epoch")
    resumed_from: int | None = Field(
        default=None,
        ge=0,
        le=10**12,
        description="step of the checkpoint this attempt started from; None = fresh",
    )
    first_step_at: float | None = Field(
        default=None, ge=0, lt=LATEST, description="when this attempt finished its first step"
    )
    world_size: int = Field(default=1, ge=1)
    source: Literal["program", "log", "tensorboard", "mlflow", "wandb"] = Field(
        default="program",
        description="who says so: the program itself, or what else it writes; then the step is the "
        "newest that was seen, and may be an older one than the last",
    )
