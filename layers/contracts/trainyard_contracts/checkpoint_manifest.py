"""The manifest of a checkpoint: without a valid one there is no checkpoint."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from .base import Lenient, Sha256Hex


class ManifestFile(Lenient):
    """One file of a checkpoint; `path` is relative to the checkpoint's directory."""

    path: str
    bytes: int = Field(ge=0)
    sha256: Sha256Hex
    crc32: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{8}$",
        description="what a trainer checks before it loads; sha256 is what lasts",
    )


class WatchedSource(Lenient):
    """The program's own checkpoint of which the agent made this copy."""

    path: str = Field(description="of its file or directory, relative to the run's directory")
    signature: str = Field(description="of its files' names, sizes and times")
    modified_ns: int = Field(description="its newest file's time, in ns since the epoch")
    directory: bool = Field(default=False, description="it is a directory, and no single file")
    counted: bool = Field(
        default=False, description="its step is not known: 'step' counts the copies"
    )
    linked: bool = Field(default=False, description="the copy shares the program's blocks on disk")


class CheckpointManifest(Lenient):
    """Written last into a checkpoint's directory; without a valid one there is no checkpoint."""

    schema_name: Literal["trainyard.checkpoint.v1"] = Field(
        default="trainyard.checkpoint.v1", alias="schema"
    )
    run_id: str
    attempt: int = Field(ge=1)
    step: int = Field(ge=0)
    world_size: int = Field(ge=1)
    created_at: datetime
    files: list[ManifestFile] = Field(min_length=1)
    crc32: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{8}$",
        description="of the manifest without it, its keys sorted",
    )
    watched: WatchedSource | None = Field(
        default=None, description="of a copy of what a program wrote in its own way"
    )
