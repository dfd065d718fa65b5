"""Opens files that a job may have written.

It follows no links, opens no pipes or devices, and reads at most a given number of bytes.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

#: The most that is read of progress.json, launch-*.json and the like, which are far smaller.
SMALL_BYTES = 1024 * 1024
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Opening a pipe would wait for its writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

#: What is wrong with the files themselves. Any other error (EMFILE, EIO, ESTALE while a file system
#: fails over) may pass.
_OF_THE_FILES = frozenset({
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL,
    errno.EFBIG, errno.ENXIO,
})  # fmt: skip


def may_pass(error: OSError) -> bool:
    """The error says that a file cannot be read just now, and nothing of what is in it."""
    return error.errno not in _OF_THE_FILES


def stays_inside(name: str) -> None:
    """Raise ValueError for a name that leads out of its directory; a job may have written it."""
    if name.startswith("/") or {"", ".", ".."} & {*name.split("/")} or "\0" in name:
        raise ValueError(f"{name[:200]!r} leads out of its directory")


def open_inside(root: Path, path: Path) -> IO[bytes]:
    """A regular file below `root`, for reading.

    Raises OSError when a link lies on the way from there, or it is no regular file. The agent may
    be root, and what it reads it exports or shows: a job's link to a file of the system must not be
    followed.
    """
    *directories, name = path.relative_to(root).parts
    if ".." in directories:  # not a link, and leads out as well
        raise OSError(errno.EINVAL, "the path leads out of its directory", str(path))
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in directories:
            outer = descriptor
            descriptor = os.open(part, _ENTER, dir_fd=outer)
            os.close(outer)
        opened = os.open(name, _READ, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(opened, "rb")


def read_small(root: Path, path: Path, limit: int = SMALL_BYTES) -> bytes:
    """All of a small file below `root`. Raises OSError, also when it is larger than `limit`."""
    with open_inside(root, path) as stream:
        body = stream.read(limit + 1)
    if len(body) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
    return body


def read_tail(root: Path, path: Path, limit: int, start: int = 0) -> bytes:
    """The last `limit` bytes at most of a file below `root`, none before `start`.

    Raises OSError.
    """
    with open_inside(root, path) as stream:
        stream.seek(max(start, os.fstat(stream.fileno()).st_size - limit))
        return stream.read(limit)
