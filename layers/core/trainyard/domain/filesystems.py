"""What a filesystem does next: when it exports by its schedule, and what an export's end means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from trainyard.domain.archive_records import AskedBy, FilesystemExport
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.problems import problem
from trainyard.domain.words import counted, who
from trainyard_contracts.people import Person

#: Of `SeenFilesystem`, `SeenLink` and `SeenTask`: FSx's own words, as far as they decide anything.
Life = Literal["coming", "there", "broken", "going"]
TaskLife = Literal["running", "succeeded", "failed"]


@dataclass(frozen=True)
class TaskEnd:
    """What FSx says of a task: its state, how many files it has, and why it failed."""

    life: TaskLife
    files: int = 0
    failed_files: int = 0
    said: str = ""


def due(filesystem: Filesystem, now: datetime) -> bool:
    """Whether its nightly export is to begin: once for each such time since it was available."""
    at = filesystem.spec.nightly_export
    begun = filesystem.available_at
    if at is None or begun is None or in_progress(filesystem):
        return False
    last = _before(at, now)
    newest = filesystem.export.requested_at if filesystem.export else begun
    return begun < last and newest < last


def _before(at: str, now: datetime) -> datetime:
    """The newest moment up to now that is this time of day, in UTC."""
    hour, minute = map(int, at.rstrip("Z").split(":"))
    today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


def in_progress(filesystem: Filesystem) -> bool:
    return filesystem.export is not None and not filesystem.export.over


def asked_for(
    filesystem: Filesystem, now: datetime, asked_by: AskedBy, *, by: Person | None = None
) -> Filesystem:
    """The same with a new export."""
    number = filesystem.export.number + 1 if filesystem.export else 1
    made = FilesystemExport(number=number, asked_by=asked_by, requested_at=now)
    words = {
        "person": f"{who(by)} asked for an export.",
        "schedule": f"It is {filesystem.spec.nightly_export}: what changed is exported.",
        "deletion": "It is to be deleted: what it holds is exported first.",
    }
    return filesystem.changed(export=made).told(now, "ExportRequested", words[asked_by])


def ended(filesystem: Filesystem, end: TaskEnd, now: datetime) -> Filesystem:
    """The same after its export: verified if FSx copied every file, else failed with the reason."""
    export = filesystem.export
    assert export is not None
    over = export.changed(
        ended_at=now,
        files=end.files,
        failed_files=end.failed_files,
        report=filesystem.report_path if end.failed_files else "",
    )
    if end.life == "succeeded" and not end.failed_files:
        done = over.changed(state="verified")
        words = f"Export {export.number} is verified: FSx copied {counted(end.files, 'file')}."
        return filesystem.changed(export=done, verified=done, problem=None).told(
            now, "ExportVerified", words
        )
    reason = _why(end, over.report)
    failed = over.changed(state="failed", reason=reason)
    found = problem("filesystem-export-failed", reason)
    return filesystem.changed(export=failed, problem=found).told(now, "ExportFailed", reason)


def _why(end: TaskEnd, report: str) -> str:
    if end.failed_files:
        count = f"{end.failed_files} of {counted(end.files, 'file')}"
        return f"FSx could not export {count}; {report} names them. {end.said}".strip()
    return f"FSx's export failed: {end.said or 'it gave no reason'}"


def failed(filesystem: Filesystem, reason: str, now: datetime) -> Filesystem:
    """The same, of no use any more."""
    found = problem("filesystem-failed", reason)
    return filesystem.changed(status="Failed", problem=found, waits_for="").told(
        now, "FilesystemFailed", reason
    )


def kept_because(filesystem: Filesystem, users: list[str]) -> str | None:
    """Why it must not be deleted, whatever a person says; None if it may be."""
    if users:
        return f"Filesystem '{filesystem.name}' is used by {', '.join(users)}."
    if filesystem.spec.deletion_policy == "keep" and filesystem.available_at is not None:
        return (
            f"Filesystem '{filesystem.name}' has deletionPolicy 'keep': Trainyard never deletes it."
        )
    return None


def only_copy(filesystem: Filesystem) -> str | None:
    """What a deletion would lose that no export can save; None if there is nothing."""
    if filesystem.available_at is None:
        return None  # no cluster ever had it
    if filesystem.spec.repository is None:
        return (
            f"Filesystem '{filesystem.name}' has no repository, so what it holds is nowhere else."
        )
    if filesystem.association_id is None or filesystem.status == "Failed":
        return f"Filesystem '{filesystem.name}' cannot export: it is {filesystem.status}."
    return None
