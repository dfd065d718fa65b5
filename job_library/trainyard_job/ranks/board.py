"""Where the ranks of a job leave lines for each other: files of a directory that all nodes share,
or the courier of the first host where they share none (`courier.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

#: The next whole line of another rank; None while there is none.
Take = Callable[[], "bytes | None"]


class Carrier(Protocol):
    """Brings files to the first rank's host, from a host that shares no directory with it."""

    @property
    def host(self) -> str:
        """This host's name."""

    def put(self, source: Path, target: Path) -> None:
        """Copy a file to where `target` is on the first rank's host. Raises OSError."""


class Board(Protocol):
    """One rank's view of all ranks' lines. What it cannot write or reach is an OSError."""

    @property
    def carrier(self) -> Carrier | None:
        """None where this rank's files lie where the first rank sees them."""

    def clear(self) -> None:
        """Remove what an earlier start of the job left; the first rank does so."""

    def open_own(self) -> bool:
        """Begin this rank's lines anew; whether the others will see when this process is gone."""

    def has_own(self) -> bool:
        """Whether they are still there: the first rank may have cleared the board."""

    def append(self, line: bytes) -> None: ...

    def reader(self, rank: int) -> Take:
        """Reads that rank's lines from the first one on."""

    def is_gone(self, rank: int) -> bool:
        """Whether that rank's process has ended, of one that said so of itself (`open_own`)."""

    def mark(self, name: str) -> None: ...

    def is_marked(self, name: str) -> bool: ...


class FileBoard:
    """In a directory: a file for each rank, which its process holds a lock on while it lives."""

    carrier: Carrier | None = None

    def __init__(self, directory: Path, rank: int) -> None:
        self._directory, self._rank = directory, rank
        self._file = -1

    def _path(self, rank: int) -> Path:
        return self._directory / f"{rank}.jsonl"

    def clear(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._directory.iterdir():
            path.unlink(missing_ok=True)

    def open_own(self) -> bool:
        if self._file >= 0:
            os.close(self._file)
        self._directory.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._file = os.open(self._path(self._rank), flags, 0o666)
        try:
            # Not flock: a child that the program forks would hold that, too.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # a file system without locks
            return False
        return True

    def has_own(self) -> bool:
        if self._file < 0:
            return False
        try:
            return os.stat(self._path(self._rank)).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def append(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path(self._rank))) from error

    def reader(self, rank: int) -> Take:
        """The file is opened anew each time: a network file system then asks its server."""
        path, offset = self._path(rank), 0

        def take() -> bytes | None:
            nonlocal offset
            try:
                with open(path, "rb") as stream:
                    stream.seek(offset)
                    line = stream.readline()
            except OSError:  # not there yet; whatever else it is, the wait for it has an end
                return None
            if not line.endswith(b"\n"):
                return None
            offset += len(line)
            return line

        return take

    def is_gone(self, rank: int) -> bool:
        """Nobody holds the lock that it held."""
        try:
            descriptor = os.open(self._path(rank), os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def mark(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._directory / f"{name}.mark").touch()

    def is_marked(self, name: str) -> bool:
        return (self._directory / f"{name}.mark").exists()
