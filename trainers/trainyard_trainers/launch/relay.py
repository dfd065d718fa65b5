"""Passes what the ranks of this node print on to the job's log.

Each rank writes into a file of its own (`own_log.py`). This process reads those files as they grow
and writes them to its own stdout, whole lines where there are any. Whatever becomes of it, no rank
waits for it, and no rank's file lacks a line. Beside the files it notes how long each was at which
time, so that the newest part of one can be found.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trainyard_job.common import places

_POLL_SECONDS = 0.1
#: A piece without an end waits so long for the rest of its line.
PIECE_SECONDS = 1.0
#: A longer line is passed on in pieces.
PIECE_BYTES = 64 * 1024
#: At the end so much that was not passed on yet still is: each rank's last words.
LEFT_BYTES = 16 * 1024**2
#: So long the end of this node's part waits at most for a log that nobody takes.
DRAIN_SECONDS = 3.0
#: Between two marks of how long the files are.
MARK_SECONDS = 5.0
#: Of a file of marks that is larger every second mark goes.
MOST_MARK_BYTES = 2 * 1024**2
#: After a read or write that failed.
_AGAIN_SECONDS = 1.0
#: Ranks that have no file after a minute may get none: the directory is listed less often then.
_SOON_ROUNDS, _LATER = 600, 10


def directory(attempt_dir: Path, node: str) -> Path | None:
    """The directory for the files of this node's ranks, made if it is not there; None, and a line
    in the log, where it cannot be made.
    """
    path = attempt_dir / places.rank_logs(node)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _say(f"{path} cannot be made ({error.strerror}): all ranks print into the job's log alone")
        return None
    return path


@dataclass
class _File:
    """A rank's file: what of it was read, and what of that waits for the end of its line."""

    name: str
    descriptor: int
    offset: int = 0
    piece: bytes = b""
    since: float = 0.0

    def read(self, most: int) -> bytes:
        body = os.pread(self.descriptor, most, self.offset)
        if not body and os.fstat(self.descriptor).st_size < self.offset:
            self.offset = 0  # the program emptied it
            body = os.pread(self.descriptor, most, 0)
        self.offset += len(body)
        return body

    def lines(self, most: int = PIECE_BYTES) -> bytes:
        """What may be passed on: whole lines, and a piece that waited long enough."""
        body = self.read(most)
        whole = self.piece + body
        end = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        now = time.monotonic()
        if end or not self.piece:
            self.since = now
        if now - self.since >= PIECE_SECONDS or len(whole) - end >= PIECE_BYTES:
            end = len(whole)
        self.piece = whole[end:]
        return whole[:end]


@dataclass
class _Marks:
    """Lines of a time and, for each file that grew, its name and its bytes."""

    path: Path
    sizes: dict[str, int] = field(default_factory=dict)
    at: float = -MARK_SECONDS

    def note(self, files: list[_File], *, last: bool = False) -> None:
        now = time.monotonic()
        grown = {file.name: file.offset for file in files if file.offset}
        grown = {name: size for name, size in grown.items() if size != self.sizes.get(name)}
        if not grown or (now - self.at < MARK_SECONDS and not last):
            return
        self.at = now
        self.sizes |= grown
        words = [str(int(time.time())), *(f"{name} {size}" for name, size in grown.items())]
        with contextlib.suppress(OSError):  # a log without times is still a log
            with open(self.path, "ab") as stream:
                stream.write(f"{' '.join(words)}\n".encode())
                large = stream.tell() > MOST_MARK_BYTES
            if large:
                self._halve()

    def _halve(self) -> None:
        part = self.path.with_name(f".{self.path.name}.part")
        lines = self.path.read_bytes().splitlines(keepends=True)
        part.write_bytes(b"".join(lines[::-2][::-1]))  # the last one always
        part.replace(self.path)


class Relay:
    """Of one node's ranks; it works in a thread."""

    def __init__(self, directory: Path, ranks: int, out: int = 1) -> None:
        self._directory, self._ranks, self._out = directory, ranks, out
        self._files: dict[str, _File] = {}
        self._marks = _Marks(directory / places.RANK_LOG_TIMES)
        self._rounds, self._failed = 0, False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Relay:
        self._thread.start()
        return self

    def finish(self) -> None:
        """Pass on what is left, when all who write are dead; it returns within DRAIN_SECONDS."""
        self._over.set()
        self._thread.join(DRAIN_SECONDS)

    def _run(self) -> None:
        pause = _POLL_SECONDS
        while not self._over.wait(pause):
            pause = _POLL_SECONDS if self._passes(self._round) else _AGAIN_SECONDS
        self._passes(self._drain)

    def _passes(self, work: Callable[[], None]) -> bool:
        """A filesystem that fails over is back within minutes; a reader of the log may not be."""
        try:
            work()
        except OSError as error:
            self._tell(error)
            return False
        return True

    def _tell(self, error: OSError) -> None:
        """Once: there may be one such error ten times a second."""
        if not self._failed:
            self._failed = True
            where = f"all of it is in {self._directory}"
            _say(f"what ranks print cannot be passed on here ({error.strerror}); {where}")

    def _round(self) -> None:
        self._look()
        busy = True
        while busy and not self._over.is_set():
            busy = False
            for file in self._files.values():
                try:
                    body = file.lines()
                except OSError as error:  # of one rank; the others go on
                    self._tell(error)
                    continue
                self._write(body)
                busy = busy or len(body) > PIECE_BYTES // 2
            self._marks.note(list(self._files.values()))

    def _look(self) -> None:
        """Open the files that have come since the last look."""
        self._rounds += 1
        rare = self._rounds > _SOON_ROUNDS and self._rounds % _LATER and not self._over.is_set()
        if len(self._files) >= self._ranks or rare:
            return
        with os.scandir(self._directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                ours = entry.name.endswith(".log") and entry.name not in self._files
                if ours and entry.is_file(follow_symlinks=False):  # a job may write there, too
                    opened = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
                    self._files[entry.name] = _File(entry.name, opened)

    def _drain(self) -> None:
        self._look()
        most = LEFT_BYTES // max(1, len(self._files))
        for file in self._files.values():
            self._write(file.piece)
            file.piece = b""
            left = os.fstat(file.descriptor).st_size - file.offset
            if left > most:
                file.offset += left - most
                where = f"they are in {self._directory}"
                words = f"{left - most} bytes of {file.name} are left out here; {where}"
                self._write(f"\ntrainyard: {words}\n".encode())
            rest = min(left, most)
            while rest > 0 and (body := file.read(min(rest, PIECE_BYTES))):
                self._write(body)
                rest -= len(body)
        self._marks.note(list(self._files.values()), last=True)

    def _write(self, body: bytes) -> None:
        view = memoryview(body)
        while view:
            view = view[os.write(self._out, view) :]


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"trainyard: {text}", file=sys.stderr, flush=True)
