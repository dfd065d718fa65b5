"""A filesystem that is there: its exports."""

from __future__ import annotations

from datetime import timedelta

from trainyard.app.filesystems.making import VISIBLE_SECONDS, words_of_loss
from trainyard.domain import filesystems
from trainyard.domain.errors import BackendRejected, ConflictError
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.problems import problem
from trainyard.ports import Ports


def serve(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    """One that is Available: its exports, by a person or by the clock."""
    now = ports.clock.now()
    if ports.lustre.describe(filesystem.fsx_id or "") is None:
        found = problem("filesystem-failed", words_of_loss(filesystem))
        gone = filesystem.changed(status="Deleted", problem=found)
        return gone.told(now, "FilesystemLost", found.detail)
    if filesystems.in_progress(filesystem):
        return export_step(ports, filesystem)
    if filesystem.paused:
        return _exports_itself(ports, filesystem, on=True)
    if filesystems.due(filesystem, now):
        return filesystems.asked_for(filesystem, now, "schedule")
    return None


def export_step(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    """Begin the export that is asked for, or note its end; None if there is nothing new."""
    export = filesystem.export
    assert export is not None
    if export.task_id is None:
        return _begin_export(ports, filesystem)
    end = ports.lustre.task(export.task_id)
    now = ports.clock.now()
    if end is None:
        if now - (export.started_at or now) < timedelta(seconds=VISIBLE_SECONDS):
            return None
        end = filesystems.TaskEnd("failed", said=f"FSx knows no task {export.task_id}.")
    if end.life == "running":
        return None
    return filesystems.ended(filesystem.changed(waits_for=""), end, now)


def _begin_export(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    """FSx takes no task while it exports by itself, nor while another task runs."""
    export, now = filesystem.export, ports.clock.now()
    assert export is not None
    if filesystem.exports_itself and not filesystem.paused:
        return _exports_itself(ports, filesystem, on=False)
    link = ports.lustre.linked(filesystem.association_id or "")
    if link is not None and link.life == "coming":
        return None
    try:
        task_id = ports.lustre.export(filesystem, export.number)
    except ConflictError as busy:
        return filesystem.changed(waits_for=busy.detail)
    except BackendRejected as refused:
        end = filesystems.TaskEnd("failed", said=refused.detail)
        return filesystems.ended(filesystem, end, now)
    begun = export.changed(state="running", task_id=task_id, started_at=now)
    words = f"FSx exports what changed ({task_id})."
    return filesystem.changed(export=begun, waits_for="").told(now, "ExportStarted", words)


def _exports_itself(ports: Ports, filesystem: Filesystem, *, on: bool) -> Filesystem | None:
    try:
        ports.lustre.exports_itself(filesystem, on)
    except BackendRejected as refused:
        return filesystem.changed(waits_for=refused.detail)
    return filesystem.changed(paused=not on, waits_for="")
