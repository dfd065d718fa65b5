"""A file that is filled in pieces, and proven at its end."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from trainyard_agent.jobs.copy_progress import Progress


class Into:
    """A piece of an open file, and the MD5 of what was written there."""

    def __init__(self, descriptor: int, start: int, progress: Progress) -> None:
        self._descriptor, self._start, self._progress = descriptor, start, progress
        self.seek(0)

    @property
    def digest(self) -> bytes:
        found: bytes = self._md5.digest()
        return found

    def seek(self, _offset: int) -> None:
        self.written, self._md5 = 0, md5_of(b"")

    def truncate(self) -> None:
        pass

    def flush(self) -> None:
        pass

    def write(self, block: bytes) -> None:
        self._progress.check()
        self._md5.update(block)
        view = memoryview(block)
        while view:
            count = os.pwrite(self._descriptor, view, self._start + self.written)
            self.written += count
            view = view[count:]


def md5_of(body: bytes) -> Any:
    return hashlib.md5(body, usedforsecurity=False)
