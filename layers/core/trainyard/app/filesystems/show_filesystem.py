"""A filesystem with who uses it and how full it is."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.app.filesystems.users import Users, users_of
from trainyard.domain.filesystem_records import Filesystem
from trainyard.ports import Ports


@dataclass(frozen=True)
class Shown:
    filesystem: Filesystem
    users: Users
    used_bytes: int | None


def show_filesystem(ports: Ports, name: str) -> Shown:
    """Raises FilesystemNotFound."""
    return shown(ports, ports.filesystems.get(name), measured=True)


def shown(ports: Ports, filesystem: Filesystem, *, measured: bool = False) -> Shown:
    """CloudWatch is asked only where somebody wants to know."""
    there = filesystem.fsx_id is not None and filesystem.status in ("Available", "Archiving")
    used = ports.lustre.used_bytes(filesystem.fsx_id or "") if measured and there else None
    return Shown(filesystem, users_of(ports, filesystem), used)
