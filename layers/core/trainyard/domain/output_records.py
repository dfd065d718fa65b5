"""What a run leaves: checkpoints, and what was exported."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.record import Record


class Export(Record):
    """One export of the run; only `verified` permits deleting the cluster."""

    id: str
    state: Literal["requested", "running", "failed", "verified"] = "requested"
    final: bool = Field(
        default=False, description="made after training ended, so it holds everything that is whole"
    )
    requested_at: datetime
    tries: int = 1
    reason: str = ""
    objects: int = 0
    bytes: int = 0
    manifest_key: str = ""
    left_behind: str = Field(
        default="",
        description="what of the program's only the cluster holds, though every object is verified",
    )
    found_nothing: bool = Field(
        default=False,
        description="neither checkpoint nor model nor file of the program's: only logs",
    )


class Checkpoint(Record):
    """A checkpoint that was committed, and what is known of it now."""

    step: int
    attempt: int
    path: str
    bytes: int
    files: int
    committed_at: datetime
    status: Literal["whole", "rejected", "pruned"] = Field(
        default="whole",
        description=(
            "whole: every hash verified; rejected: it does not verify; pruned: "
            "removed, newer ones are kept, or lost with its filesystem"
        ),
    )
    reason: str = ""
    counted: bool = Field(
        default=False, description="'step' is no step of the training: it counts the copies"
    )
