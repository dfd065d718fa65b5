"""Takes a filesystem as far as it can go now, one step after the other.

FSx sends no events, so the sweep calls this each minute. Every step is one call of FSx and one
conditional write. The call may be repeated, so a crash between the two changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from trainyard.app.filesystems.users import users_of
from trainyard.domain import filesystems
from trainyard.domain.errors import BackendRejected, ConflictError
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.problems import problem
from trainyard.outside.lustre import SeenFilesystem
from trainyard.ports import Ports

#: FSx may not show at once what it was asked for.
VISIBLE_SECONDS = 300
#: More steps than any filesystem takes without a wait for FSx.
MOST_STEPS = 12


def advance(ports: Ports, filesystem: Filesystem) -> Iterator[str]:
    """Each line that the filesystem's timeline gets."""
    for _ in range(MOST_STEPS):
        step = _STEPS.get(filesystem.status)
        after = step(ports, filesystem) if step is not None else None
        if after is None or after == filesystem:
            return
        known = {line.id for line in filesystem.lines}
        filesystem = ports.filesystems.put(after)
        yield from (line.message for line in after.lines if line.id not in known)


def _create(ports: Ports, filesystem: Filesystem) -> Filesystem:
    now = ports.clock.now()
    if filesystem.create_requested_at is None:
        return filesystem.changed(create_requested_at=now)
    try:
        seen = ports.lustre.create(filesystem)
    except BackendRejected as refused:
        return filesystems.failed(filesystem, refused.detail, now)
    made = _known(filesystem, seen).changed(status="Creating")
    return made.told(now, "FilesystemCreating", f"FSx makes {seen.fsx_id}.")


def _known(filesystem: Filesystem, seen: SeenFilesystem) -> Filesystem:
    return filesystem.changed(
        fsx_id=seen.fsx_id,
        arn=seen.arn,
        dns_name=seen.dns_name,
        mount_name=seen.mount_name,
        vpc=seen.vpc,
    )


def _await_creation(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    now, seen = ports.clock.now(), ports.lustre.describe(filesystem.fsx_id or "")
    if seen is None:
        asked = filesystem.create_requested_at or filesystem.created_at
        if now - asked < timedelta(seconds=VISIBLE_SECONDS):
            return None
        return filesystems.failed(filesystem, _gone(filesystem), now)
    if seen.life in ("broken", "going"):
        reason = seen.failure_message or f"FSx says that it is {seen.said}, and no reason."
        return filesystems.failed(filesystem, reason, now)
    if seen.life != "there":
        return None
    place = ports.networks.places([filesystem.spec.subnet_id or ""])
    zone = next((found.zone for found in place.values()), "")
    known = _known(filesystem, seen).changed(zone=zone)
    if filesystem.spec.repository is None:
        return _available(known, ports)
    words = "FSx made it; it is linked to its repository, and what is there is imported."
    return known.changed(status="Linking").told(now, "FilesystemLinking", words)


def _gone(filesystem: Filesystem) -> str:
    return f"{filesystem.fsx_id} was deleted outside Trainyard."


def _available(filesystem: Filesystem, ports: Ports) -> Filesystem:
    now = ports.clock.now()
    ready = filesystem.changed(status="Available", available_at=now, waits_for="")
    return ready.told(now, "FilesystemAvailable", "Clusters may mount it.")


def _await_link(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    now = ports.clock.now()
    if filesystem.association_id is None:
        try:
            return filesystem.changed(association_id=ports.lustre.link(filesystem))
        except BackendRejected as refused:
            return filesystems.failed(filesystem, _of_link(filesystem, refused.detail), now)
    seen = ports.lustre.linked(filesystem.association_id)
    if seen is not None and seen.life == "broken":
        reason = seen.failure_message or f"FSx says that the link is {seen.said}."
        return filesystems.failed(filesystem, _of_link(filesystem, reason), now)
    if seen is None or seen.life != "there":
        return None
    if task := ports.lustre.busy(filesystem.fsx_id or ""):
        return filesystem.changed(waits_for=f"FSx imports what the repository holds ({task}).")
    return _available(filesystem, ports)


def _of_link(filesystem: Filesystem, reason: str) -> str:
    """The field of the spec first: AWS's words name neither it nor the bucket."""
    repository = filesystem.spec.repository
    return f"repository.source ({repository.source}): {reason}" if repository else reason


def _serve(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
    """One that is Available: its exports, by a person or by the clock."""
    now = ports.clock.now()
    if ports.lustre.describe(filesystem.fsx_id or "") is None:
        found = problem("filesystem-failed", _gone(filesystem))
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


def _archive(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
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


def _delete(ports: Ports, filesystem: Filesystem) -> Filesystem | None:
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
        return _known(filesystem, seen)
    if asked is not None and now - asked < timedelta(seconds=VISIBLE_SECONDS):
        return None
    return filesystem.changed(status="Deleted").told(
        now, "FilesystemDeleted", "FSx was never asked for it, or made none."
    )


_STEPS: Mapping[str, Callable[[Ports, Filesystem], Filesystem | None]] = {
    "Pending": _create,
    "Creating": _await_creation,
    "Linking": _await_link,
    "Available": _serve,
    "Archiving": _archive,
    "Deleting": _delete,
}
