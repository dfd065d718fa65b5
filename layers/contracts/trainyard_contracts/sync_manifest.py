"""What a run has in S3 while it trains, and which list of it is in force."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from .base import Lenient
from .export_manifest import ExportedObject, KeptLink


class SyncedObject(ExportedObject):
    """One file of a sync; its object is named by its SHA-256."""

    mode: int = Field(default=0o644, ge=0, le=0o777, description="permissions of the file")
    modified_ns: int = Field(
        default=0, ge=0, description="when the file was written, since 1970; 0: not known"
    )


class SyncManifest(Lenient):
    """manifest-<number>.json of a sync, written after all objects that it names."""

    schema_name: Literal["trainyard.sync.v1"] = Field(default="trainyard.sync.v1", alias="schema")
    run_id: str
    attempt: int = Field(ge=1)
    created_at: datetime
    objects: list[SyncedObject]
    links: list[KeptLink] = Field(default_factory=list)
    last_step: int | None = Field(default=None, description="of the newest checkpoint in it")


class SyncLatest(Lenient):
    """latest.json of a sync, replaced last in each pass: the list that is in force."""

    schema_name: Literal["trainyard.sync-latest.v1"] = Field(
        default="trainyard.sync-latest.v1", alias="schema"
    )
    run_id: str
    attempt: int = Field(ge=1, description="only it, or a newer one, may go on here")
    at: datetime = Field(description="when the pass began that found everything so")
    number: int = Field(ge=0, description="of the list; 0: there is none yet")
    sha256: str = Field(default="", description="of the list")
    objects: int = Field(default=0, ge=0)
    bytes: int = Field(default=0, ge=0, description="of the files")
    last_step: int | None = None
    left_out: int = Field(default=0, ge=0, description="files of the program's that are not in it")
