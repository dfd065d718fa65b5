"""What a run copies to S3."""

from typing import Literal

from pydantic import Field
from typing_extensions import Self

from .base import Strict, rule


class ExportSpec(Strict):
    """What is copied to S3, at the end (always verified object by object) and before."""

    enabled: bool = Field(
        default=True,
        description="false: nothing is copied, and what was trained goes with the cluster",
    )
    checkpoints: Literal["all", "last", "none"] = Field(
        default="all",
        description="every whole checkpoint, the newest whole one, or none; the final model is "
        "copied in any case",
    )
    every_seconds: float | None = Field(
        default=None,
        ge=5,
        le=86400,
        description="while the run trains, its newest whole checkpoints and what its program made "
        "are copied to S3 so often, so that they outlive the cluster and its filesystem; default: "
        "at the end only",
    )

    @rule
    def _something_to_copy(self) -> Self:
        if self.every_seconds is not None and not self.enabled:
            raise ValueError(
                "everySeconds: nothing is copied with enabled: false; remove one of the two"
            )
        return self
