"""What the API answers of filesystems, field by field, in camelCase."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field

from trainyard.app.filesystems.create_filesystem import FilesystemPlan
from trainyard.app.filesystems.show_filesystem import Shown
from trainyard.domain import filesystem_records as records
from trainyard.domain.archive_records import AskedBy, FilesystemExport
from trainyard.domain.filesystem_records import FilesystemStatus
from trainyard.http.timeline_views import TimelineEntry
from trainyard.http.views import Problem, View
from trainyard_contracts.filesystems import FilesystemSpec
from trainyard_contracts.people import Person


class FilesystemExportView(View):
    """One copy of what changed, into the repository."""

    number: int
    asked_by: AskedBy
    state: Literal["requested", "running", "verified", "failed"] = Field(
        description="verified: FSx said of every file that it was copied"
    )
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    task_id: str | None = Field(description="of FSx's data repository task")
    files: int
    failed_files: int
    report: str = Field(description="where FSx writes which files failed")
    reason: str

    @classmethod
    def maybe(cls, export: FilesystemExport | None) -> Self | None:
        return cls.of(export) if export is not None else None


class FilesystemSummary(View):
    """A filesystem in a list."""

    name: str
    spec: FilesystemSpec
    status: FilesystemStatus
    generation: int
    created_at: datetime
    created_by: Person | None = Field(description="whose it is; null: not known")
    shared_with: list[str] = Field(description="patterns of ARNs of others who may change it")
    updated_at: datetime
    available_at: datetime | None
    delete_requested_at: datetime | None
    fsx_id: str | None = Field(description="its id at AWS, such as fs-0123456789abcdef0")
    dns_name: str
    mount_name: str
    vpc: str = Field(description="the VPC that it lies in")
    zone: str
    problem: Problem | None
    waits_for: str = Field(description="why nothing moves now; '' = nothing is waited for")
    export: FilesystemExportView | None = Field(description="the newest export")
    verified_export: FilesystemExportView | None = Field(
        description="the newest one of which every file was copied"
    )

    @classmethod
    def of_record(cls, record: records.Filesystem, **other: Any) -> Self:
        return cls.of(
            record,
            problem=Problem.of(record.problem) if record.problem else None,
            export=FilesystemExportView.maybe(record.export),
            verified_export=FilesystemExportView.maybe(record.verified),
            **other,
        )


class FilesystemView(FilesystemSummary):
    """A filesystem, with who uses it and what happened to it."""

    clusters: list[str] = Field(description="that have it, or are about to")
    runs: list[str] = Field(description="active ones on these clusters, or that will make one")
    used_bytes: int | None = Field(
        description="what its files take on disk; null where CloudWatch does not say"
    )
    discard_reason: str = Field(description="why a person gave up what it held; '' = nobody did")
    events: list[TimelineEntry] = Field(description="its newest 100 lines, oldest first")

    @classmethod
    def of_shown(cls, shown: Shown) -> Self:
        return cls.of_record(
            shown.filesystem,
            clusters=shown.users.clusters,
            runs=shown.users.runs,
            used_bytes=shown.used_bytes,
            events=[TimelineEntry.of(line) for line in shown.filesystem.lines],
        )


class FilesystemPage(View):
    filesystems: list[FilesystemSummary]
    next_token: str | None = None


class FilesystemRequestView(View):
    """One call of AWS's API, exactly as it would be sent."""

    operation: str
    request: dict[str, Any]


class FilesystemPlanView(View):
    """What would be sent, but is not, and what it would cost."""

    requests: list[FilesystemRequestView] = Field(
        description="in order; an id that AWS would give is fs-00000000000000000"
    )
    monthly_usd: float | None = Field(description="null where the price list does not say")
    warnings: list[str]

    @classmethod
    def of_plan(cls, plan: FilesystemPlan) -> Self:
        return cls.made(
            requests=[
                FilesystemRequestView.made(operation=one.operation, request=one.request)
                for one in plan.requests
            ],
            monthly_usd=plan.monthly_usd,
            warnings=plan.warnings,
        )
