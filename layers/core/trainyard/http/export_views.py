"""What a run leaves in S3: its export, its checkpoints, its newest sync."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.http.views import View


class Export(View):
    """One export of the run; only `verified` permits deleting the cluster."""

    id: str
    state: Literal["requested", "running", "failed", "verified"]
    final: bool = Field(
        description="made after training ended, so it holds everything that is whole"
    )
    requested_at: datetime
    tries: int
    reason: str
    objects: int
    bytes: int
    manifest_key: str
    left_behind: str = Field(
        description="what of the program's only the cluster holds, though every object is verified"
    )
    found_nothing: bool = Field(
        description="neither checkpoint nor model nor file of the program's: only logs"
    )
    uri: str = Field(description="s3://bucket/prefix/ where its objects lie")


class Checkpoint(View):
    """A checkpoint that was committed, and what is known of it now."""

    step: int
    attempt: int
    path: str
    bytes: int
    files: int
    committed_at: datetime
    status: Literal["whole", "rejected", "pruned"] = Field(
        description=(
            "whole: every hash verified; rejected: it does not verify; pruned: "
            "removed, newer ones are kept, or lost with its filesystem"
        )
    )
    reason: str
    counted: bool = Field(description="'step' is no step of the training: it counts the copies")


class Sync(View):
    """What the run made is in S3 as it was then (export.everySeconds)."""

    at: datetime
    attempt: int
    last_step: int | None = Field(description="of the newest checkpoint in it")
    objects: int
    bytes: int
    left_out: int = Field(description="files of the program's that are not in it")


class CheckpointPage(View):
    checkpoints: list[Checkpoint]
    next_token: str | None = None
