"""Delete a filesystem on request, never with what is nowhere else, or export it on request."""

from __future__ import annotations

from trainyard.app.filesystems.users import users_of
from trainyard.domain import filesystems
from trainyard.domain.errors import (
    FieldError,
    FilesystemHoldsOnlyCopy,
    FilesystemInUse,
    InvalidRequest,
    WrongState,
)
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.words import who
from trainyard.ports import Ports
from trainyard_contracts.people import Person


def delete_filesystem(
    ports: Ports, name: str, *, discard: bool, reason: str | None, by: Person | None = None
) -> Filesystem:
    """Begin its deletion: export first, or at once where a person gives up what it holds.

    Raises FilesystemNotFound, FilesystemInUse, FilesystemHoldsOnlyCopy, InvalidRequest.
    """
    filesystem = ports.filesystems.get(name)
    if discard and not reason:
        words = "is needed with discard=true: say why what it holds may be lost"
        raise InvalidRequest(f"reason: {words}", errors=[FieldError("reason", words)])
    if filesystem.status in ("Deleted", "Deleting"):
        return filesystem
    if kept := filesystems.kept_because(filesystem, users_of(ports, filesystem).words()):
        raise _in_use(filesystem, kept)
    lost = filesystems.only_copy(filesystem)
    if lost is not None and not discard:
        raise FilesystemHoldsOnlyCopy(lost)
    if filesystem.status == "Archiving" and not discard:
        return filesystem
    return ports.filesystems.put(_going(ports, filesystem, reason if discard else None, by))


def _in_use(filesystem: Filesystem, kept: str) -> FilesystemInUse:
    if filesystem.spec.deletion_policy == "keep":
        return FilesystemInUse(
            kept,
            next_step="Delete it in AWS by hand if nobody needs it: aws fsx delete-file-system "
            f"--file-system-id {filesystem.fsx_id}.",
        )
    return FilesystemInUse(kept)


def _going(
    ports: Ports, filesystem: Filesystem, discarded: str | None, by: Person | None
) -> Filesystem:
    now = ports.clock.now()
    going = filesystem.changed(delete_requested_at=now, waits_for="", problem=None)
    if discarded is not None:
        going = going.changed(status="Deleting", discard_reason=discarded)
        return going.told(
            now, "DiscardRequested", f"{who(by)} gave up what it holds, because: {discarded}"
        )
    if filesystem.available_at is None:
        words = "It is deleted; no cluster ever had it."
        return going.changed(status="Deleting").told(now, "DeletionRequested", words)
    return filesystems.asked_for(going.changed(status="Archiving"), now, "deletion")


def export_filesystem(ports: Ports, name: str, *, by: Person | None = None) -> Filesystem:
    """Ask for an export of what changed; one that runs is the answer.

    Raises FilesystemNotFound, WrongState.
    """
    filesystem = ports.filesystems.get(name)
    if filesystem.spec.repository is None:
        raise WrongState(
            f"Filesystem '{name}' has no repository, so there is nowhere to export to.",
            next_step="Create a filesystem with repository.source, and copy the files there.",
        )
    if filesystems.in_progress(filesystem):
        return filesystem
    if filesystem.status != "Available":
        raise WrongState(
            f"Filesystem '{name}' is {filesystem.status}; only one that is Available exports.",
            next_step=f"Look at it: trainyard filesystem show {name}.",
        )
    asked = filesystems.asked_for(filesystem, ports.clock.now(), "person", by=by)
    return ports.filesystems.put(asked)
