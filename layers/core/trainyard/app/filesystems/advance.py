"""Takes a filesystem as far as it can go now, one step after the other.

FSx sends no events, so the sweep calls this each minute. Every step is one call of FSx and one
conditional write. The call may be repeated, so a crash between the two changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trainyard.app.filesystems.leaving import archive, delete
from trainyard.app.filesystems.making import await_creation, await_link, create
from trainyard.app.filesystems.serving import serve
from trainyard.domain.filesystem_records import Filesystem
from trainyard.ports import Ports

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


_STEPS: Mapping[str, Callable[[Ports, Filesystem], Filesystem | None]] = {
    "Pending": create,
    "Creating": await_creation,
    "Linking": await_link,
    "Available": serve,
    "Archiving": archive,
    "Deleting": delete,
}
