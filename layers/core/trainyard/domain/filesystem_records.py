"""What the table stores of a filesystem: plain frozen data."""

import hashlib
from datetime import datetime
from typing import Literal

from pydantic import Field
from typing_extensions import Self

from trainyard.domain.archive_records import FilesystemExport
from trainyard.domain.records import Problem, Record, TimelineEntry
from trainyard_contracts.cluster_parts import Mountable
from trainyard_contracts.filesystems import REPORTS, FilesystemSpec
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.people import Person

FilesystemStatus = Literal[
    "Pending",
    "Creating",
    "Linking",
    "Available",
    "Archiving",
    "Deleting",
    "Deleted",
    "Failed",
]
#: Lines that a record keeps; the oldest go.
MOST_LINES = 100


class Use(Record):
    """A cluster that was given the filesystem; it may be gone, or never have been stored."""

    cluster: str
    at: datetime


class Filesystem(Record):
    """A filesystem that we made or make. `version` is its optimistic lock."""

    name: str
    spec: FilesystemSpec
    status: FilesystemStatus = "Pending"
    generation: int = 1
    version: int = 0
    created_at: datetime
    created_by: Person | None = Field(
        default=None, description="whose it is; null: an older version did not keep it"
    )
    shared_with: list[str] = Field(
        default_factory=list, description="patterns of ARNs of others who may change it"
    )
    updated_at: datetime
    create_requested_at: datetime | None = Field(
        default=None, description="from here on there may be one at AWS, though no id is known"
    )
    available_at: datetime | None = Field(
        default=None, description="it may hold something only if this is known"
    )
    delete_requested_at: datetime | None = None
    discard_reason: str = Field(
        default="", description="why a person gave up what it holds; '' = nobody did"
    )
    fsx_id: str | None = None
    arn: str | None = None
    dns_name: str = ""
    mount_name: str = ""
    vpc: str = Field(default="", description="the VPC that it lies in")
    zone: str = ""
    association_id: str | None = Field(default=None, description="of its link to the repository")
    paused: bool = Field(
        default=False, description="FSx exports nothing by itself while an export runs"
    )
    export: FilesystemExport | None = Field(default=None, description="the newest")
    verified: FilesystemExport | None = Field(default=None, description="the newest verified one")
    uses: list[Use] = Field(default_factory=list)
    problem: Problem | None = None
    waits_for: str = Field(default="", description="why nothing moves now")
    lines: list[TimelineEntry] = Field(default_factory=list)
    idempotency_key: str | None = Field(default=None, description="of the request that made it")

    @property
    def mark(self) -> str:
        """The value of RECORD_TAG: the record's generation and the moment at which it was made."""
        return f"{self.generation}/{self.created_at.isoformat()}"

    @property
    def place(self) -> str:
        """As specs of clusters name it: DNS name and mount name."""
        return f"{self.dns_name}/{self.mount_name}"

    @property
    def mountable(self) -> Mountable:
        return Mountable(self.fsx_id or "", self.dns_name, self.mount_name)

    @property
    def report_path(self) -> str:
        """Where FSx writes which files it could not export."""
        assert self.spec.repository is not None
        return f"{S3Prefix.of(self.spec.repository.source)}{REPORTS}"

    @property
    def exports_itself(self) -> bool:
        return self.spec.repository is not None and bool(self.spec.repository.export_changes)

    def token(self, stage: str, what: str) -> str:
        """The same for every repetition of this call, and for no other call of this stack."""
        text = f"{stage}/{self.name}/{self.mark}/{what}"
        return hashlib.sha256(text.encode()).hexdigest()[:48]

    def told(self, at: datetime, type_: str, message: str) -> Self:
        """The same with one more line of its timeline."""
        number = 1 + int(self.lines[-1].id.rpartition("-")[2]) if self.lines else 1
        line = TimelineEntry(
            id=f"filesystem-{self.generation}-{number}",
            at=at,
            kind="status",
            type=type_,
            message=message,
        )
        return self.changed(lines=[*self.lines, line][-MOST_LINES:])
