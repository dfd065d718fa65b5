"""The daemon's unix sockets, also where their path is longer than the kernel's 107 bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

COMMAND_SOCKET = "agent.sock"
JOB_END_SOCKET = "job-end.sock"


@contextmanager
def address(directory: str, name: str) -> Iterator[str]:
    """A path for bind or connect, valid inside the block.

    It goes through /proc/self/fd, so that its length never matters.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
