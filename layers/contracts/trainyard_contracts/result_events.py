"""What agents report of a run's code and results on their way to S3 and back."""

from typing import Literal

from pydantic import Field

from .event_bases import AgentEvent, RunEvent


class CodeFetched(RunEvent):
    """The commit of `job.git` was fetched by the run's own job, and every attempt has its files."""

    commit: str
    url: str
    ref: str
    files: int = Field(ge=0)
    submodules: int = Field(default=0, ge=0, description="which are not fetched")


class ResultsSynced(RunEvent):
    """What the run has so far is in S3: for the first time, or again after a failure was told."""

    every_seconds: float
    objects: int
    bytes: int
    last_step: int | None = None
    left_out: int = Field(default=0, description="files of the program's that are not copied")


class SyncFailed(RunEvent):
    """What the run makes is not copied to S3 just now. Training goes on; it is tried again."""

    trouble: Literal["denied", "unreachable", "disk", "slow", "not-deleted", "other"]
    reason: str
    behind_seconds: float | None = Field(
        default=None, description="since the last copy; None: there is none yet"
    )


class RunRestored(RunEvent):
    """Before the attempt was submitted, what was in S3 was brought to an empty filesystem."""

    source: Literal["sync", "export"]
    age_seconds: float = Field(description="of what was brought")
    step: int | None = Field(default=None, description="of the newest checkpoint that is whole")
    checkpoints: int = 0
    brought: list[str] | None = Field(
        default=None,
        description="paths of the checkpoints that are there now, relative to the run's "
        "directory: the others are gone; null: not said",
    )
    files: int = Field(default=0, description="of the program's")
    bytes: int = 0
    seconds: float = 0
    skipped: list[str] = Field(
        default_factory=list, description="what could not be brought, and why; 20 at most"
    )


class ExportFinished(AgentEvent):
    """An export ended; with ok=False nothing was deleted and `reason` says what failed."""

    run_id: str
    export_id: str
    ok: bool
    reason: str = ""
    objects: int = 0
    bytes: int = 0
    manifest_key: str = ""
    manifest_sha256: str = Field(
        default="",
        description="of the manifest as it was written, so that one that was replaced is noticed",
    )
