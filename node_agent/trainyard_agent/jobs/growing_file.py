"""Reads what was added to a file since the last look, a bounded piece at a time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.host.job_files import open_inside

#: A look reads so much at most.
LOOK_BYTES = 64 * 1024
#: A log that is so far ahead is not caught up with: only its newest part is read.
BEHIND_BYTES = 256 * 1024


@dataclass
class GrowingFile:
    """One file of a job's, which may be cut, replaced, or none at all."""

    root: Path
    path: Path
    inode: int = 0
    offset: int = 0

    def read(self, *, skips: bool = True) -> bytes:
        """What is new, up to LOOK_BYTES; b'' if there is nothing. Raises OSError.

        `skips`: of much that is new only the end. A file that shrank begins anew.
        """
        with open_inside(self.root, self.path) as stream:
            about = os.fstat(stream.fileno())
            if about.st_ino != self.inode or about.st_size < self.offset:
                self.inode, self.offset = about.st_ino, 0
            if skips and about.st_size - self.offset > BEHIND_BYTES:
                self.offset = about.st_size - LOOK_BYTES
            stream.seek(self.offset)
            body = stream.read(LOOK_BYTES)
        self.offset += len(body)
        return body


@dataclass
class Lines:
    """Whole lines of a growing file; a progress bar's carriage return ends one, too."""

    _rest: str = ""

    def of(self, body: bytes) -> list[str]:
        text = self._rest + body.decode(errors="replace").replace("\r", "\n")
        *lines, self._rest = text.split("\n")
        # A line of megabytes: its beginning was read, the rest says nothing more.
        if len(self._rest) > LOOK_BYTES:
            self._rest = self._rest[:LOOK_BYTES]
        return lines

    def unended(self) -> str:
        """The last line, which has no end yet: of a bar that writes its return first."""
        return self._rest
