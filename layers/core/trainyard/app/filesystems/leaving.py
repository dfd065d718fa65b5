"""A filesystem goes: what it holds is exported first."""

from __future__ import annotations

from datetime import timedelta

from trainyard.app.filesystems.making import VISIBLE_SECONDS, as_seen
from trainyard.app.filesystems.serving import export_step
from trainyard.app.filesystems.users import users_of
from trainyard.domain.errors import BackendRejected, ConflictError
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.problems import problem
from trainyard.ports import Ports


def archive(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    export, now = filesystem.export, ports.clock.now()
    assert export is not None
    if not export.over:
        return export_step(ports, filesystem)
    if export.state == "verified":
        words = "What it held is exported and verified; it is deleted."
        return filesystem.changed(status="Deleting").told(now, "DeletionStarted", words)
    words = "It is not deleted: its export failed, so it may hold what is nowhere else."
    back = filesystem.changed(status="Available", delete_requested_at=None)
    return back.told(now, "DeletionRefused", words)


def delete(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    now = ports.clock.now()
    if filesystem.fsx_id is None:
        return _delete_unknown(ports, filesystem)
    seen = ports.lustre.describe(filesystem.fsx_id)
    if seen is None:
        return filesystem.changed(status="Deleted", waits_for="").told(
            now, "FilesystemDeleted", "FSx has it no more."
        )
    if seen.life == "going":
        return None
    if users := users_of(ports, filesystem).words():
        return _kept(ports, filesystem, users)
    try:
        ports.lustre.delete(filesystem)
    except (BackendRejected, ConflictError) as refused:  # it is being made, or a task runs
        return filesystem.changed(waits_for=refused.detail)
    return filesystem.changed(waits_for="FSx deletes it.")


def _kept(ports: Ports, filesystem: Filesystem, users: list[str]) -> Filesystem:
    """Somebody mounted it by its DNS name meanwhile."""
    now = ports.clock.now()
    reason = f"It is not deleted: it is used by {', '.join(users)}."
    back = "Available" if filesystem.available_at is not None else "Failed"
    found = problem("filesystem-failed", reason)
    kept = filesystem.changed(status=back, delete_requested_at=None, problem=found)
    return kept.told(now, "DeletionRefused", reason)


def _delete_unknown(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    """No id was learned: the process that asked FSx may have died before it wrote the answer."""
    now, asked = ports.clock.now(), filesystem.create_requested_at
    seen = ports.lustre.find(filesystem) if asked is not None else None
    if seen is not None:
        return as_seen(filesystem, seen)
    if asked is not None and now - asked < timedelta(seconds=VISIBLE_SECONDS):
        return None
    return filesystem.changed(status="Deleted").told(
        now, "FilesystemDeleted", "FSx was never asked for it, or made none."
    )
