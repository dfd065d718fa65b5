"""Writes a file so that readers see the old one or the whole new one.

Standard library only: the lifecycle scripts use this file before the agent's packages are there.
"""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(
    path: Path,
    body: bytes,
    *,
    mode: int = 0o644,
    like: os.stat_result | None = None,
    durable: bool = True,
) -> None:
    """Write the file beside its place and rename it. Never through a link that a job left there.

    `like`: with the mode and the owner of that file. `durable`: also a crash of the machine leaves
    the one or the other.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(body)
        stream.flush()
        if like is not None:
            os.fchmod(descriptor, like.st_mode & 0o777)
            os.fchown(descriptor, like.st_uid, like.st_gid)
        if durable:
            os.fsync(descriptor)
    os.replace(temporary, path)
