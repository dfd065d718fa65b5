"""Filesystems: each is taken a step further, and each that no record accounts for is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from trainyard.app.filesystems.advance import advance
from trainyard.app.sweep.swept import Swept
from trainyard.domain.errors import FilesystemNotFound, RecordUnreadable
from trainyard.domain.filesystem_records import Filesystem
from trainyard.outside.seen_filesystems import SeenFilesystem
from trainyard.ports import Ports
from trainyard_contracts.places import FILESYSTEM_TAG, RECORD_TAG

#: The action of a filesystem that no record accounts for; an alarm counts it.
UNKNOWN_FILESYSTEM = "unknown filesystem kept"
_REMEDY = (
    "It is never deleted by Trainyard, for it may hold the only copy. If its record is lost, "
    "restore the table; if nobody needs it, save what it holds and delete it by hand: "
    "aws fsx delete-file-system --file-system-id"
)


def filesystems(ports: Ports) -> Sequence[Filesystem]:
    return ports.filesystems.active()


def filesystem_step(ports: Ports, filesystem: Filesystem) -> Iterator[Swept]:
    """Take it as far as it can go now."""
    for line in advance(ports, filesystem):
        yield Swept("filesystem", filesystem.name, line)


def unknown(ports: Ports) -> Sequence[SeenFilesystem]:
    """Those with our tag that are old enough and that no record accounts for."""
    young = ports.clock.now() - timedelta(seconds=ports.config.orphan_seconds)
    return [
        seen
        for seen in ports.lustre.tagged()
        if seen.life != "going"
        and seen.created_at is not None
        and seen.created_at < young
        and not _accounted(ports, seen)
    ]


def _accounted(ports: Ports, seen: SeenFilesystem) -> bool:
    """A record that this version cannot read may be its own."""
    try:
        record = ports.filesystems.get(seen.tags.get(FILESYSTEM_TAG, ""))
    except FilesystemNotFound:
        return False
    except RecordUnreadable:
        return True
    mine = record.mark == seen.tags.get(RECORD_TAG)
    return record.status != "Deleted" and (record.fsx_id or mine) in (seen.fsx_id, True)


def unknown_filesystem(ports: Ports, seen: SeenFilesystem) -> Iterator[Swept]:
    """Name it each time, until a person has looked at it."""
    yield Swept(
        UNKNOWN_FILESYSTEM,
        seen.fsx_id,
        f"{seen.fsx_id} carries our tag, and no record accounts for it. {_REMEDY} {seen.fsx_id}.",
    )
