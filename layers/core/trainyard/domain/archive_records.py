"""What is stored of exports of a filesystem, be it one with a life of its own or a cluster's."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard_contracts.base import Lenient

AskedBy = Literal["person", "schedule", "deletion"]


class FilesystemExport(Lenient):
    """One copy of what changed, into the repository; only 'verified' permits a deletion."""

    number: int
    asked_by: AskedBy
    state: Literal["requested", "running", "verified", "failed"] = "requested"
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    task_id: str | None = None
    files: int = 0
    failed_files: int = 0
    report: str = ""
    reason: str = ""

    @property
    def over(self) -> bool:
        return self.state in ("verified", "failed")


class Archive(Lenient):
    """Of the filesystem that is made with a cluster and that its spec gives an archive.

    It is listed from there before the cluster is ready, and exported to it before it is deleted.
    """

    fsx_id: str | None = None
    association_id: str | None = Field(default=None, description="of its link to the archive")
    restored_at: datetime | None = Field(
        default=None, description="from here on what the archive held is listed"
    )
    export: FilesystemExport | None = Field(default=None, description="the newest")
    kept: bool = Field(
        default=False, description="the newest export failed, so the cluster must not be deleted"
    )
    waits_for: str = Field(default="", description="why nothing moves now")

    @property
    def exporting(self) -> bool:
        return self.export is not None and not self.export.over
