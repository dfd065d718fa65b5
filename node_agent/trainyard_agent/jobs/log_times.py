"""Notes how long each job's log was at which time, so that its newest part can be found by time.

A line holds no time of its own, and a program's output is not touched: the marks lie beside the
log, in the attempt's directory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.job_files import read_small
from trainyard_agent.jobs.attempts import Attempts
from trainyard_contracts import places
from trainyard_contracts.kept_logs import LogMark, LogTimes

log = logging.getLogger(__name__)

#: Between two looks at how long a job's log is.
LOOK_SECONDS = 5.0
#: Of a file of marks that is larger every second mark goes.
MOST_BYTES = 2 * 1024**2
#: So many are kept in S3 with a log.
KEPT_MARKS = 10_000
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Mark(NamedTuple):
    """At this time, in seconds since the epoch, the log had this many bytes."""

    at: int
    size: int


class LogWatch:
    """Looks at the logs of all active attempts."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._sizes: dict[Path, int] = {}

    async def watch(self) -> None:
        while True:
            directories = [attempt.directory for attempt in self._attempts.active()]
            await asyncio.to_thread(self.look, directories)
            await asyncio.sleep(LOOK_SECONDS)

    def look(self, directories: Sequence[Path]) -> None:
        for directory in directories:
            try:
                self._note(directory)
            except FileNotFoundError:
                continue  # nothing was printed yet
            except OSError as error:
                log.info("%s: the time of its log is not noted: %s", directory, error)
        self._sizes = {known: self._sizes.get(known, -1) for known in directories}

    def _note(self, directory: Path) -> None:
        about = (directory / places.JOB_LOG).lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size == self._sizes.get(directory):
            return
        marks = read(directory) if self._sizes.get(directory, -1) < 0 else []
        self._sizes[directory] = about.st_size
        if marks and marks[-1].size == about.st_size:
            return  # noted before the agent was restarted
        descriptor = os.open(directory / places.LOG_TIMES, _APPEND, 0o644)
        try:
            os.write(descriptor, _text([Mark(int(time.time()), about.st_size)]))
            large = os.fstat(descriptor).st_size > MOST_BYTES
        finally:
            os.close(descriptor)
        if large:
            replace_file(directory / places.LOG_TIMES, _text(read(directory)[::2]))


def _text(marks: Sequence[Mark]) -> bytes:
    return "".join(f"{mark.at} {mark.size}\n" for mark in marks).encode()


def read(directory: Path) -> list[Mark]:
    """Oldest first. What is no mark is left out: a job may write there, too.

    A newer mark is right where an older one does not fit it: the clock was set back, the log was
    emptied, or a full disk tore a line, which then ends in the next one.
    """
    try:
        body = read_small(directory, directory / places.LOG_TIMES, 2 * MOST_BYTES)
    except OSError:
        return []
    lines = [line.split() for line in body.split(b"\n")[:-1]]  # the last one has no end yet
    return rising(
        Mark(int(words[0]), int(words[1]))
        for words in lines
        if len(words) == 2 and all(len(word) < 20 and word.isdigit() for word in words)
    )


def rising(marks: Iterable[Mark]) -> list[Mark]:
    """Those that fit together; of two that do not, the newer one counts."""
    found: list[Mark] = []
    for mark in marks:
        while found and (mark.at < found[-1].at or mark.size < found[-1].size):
            found.pop()
        found.append(mark)
    return found


def offset(marks: Sequence[Mark], at: float) -> int:
    """Where in the log what was printed after that time begins, some seconds early at most."""
    return next((mark.size for mark in reversed(marks) if mark.at <= at), 0)


def kept(marks: Sequence[Mark], size: int, share: int = 1) -> LogTimes:
    """What is kept with a log of so many bytes, of which perhaps only the end is kept.

    `share`: so many logs share the room.
    """
    step = max(1, -(-len(marks) * share // KEPT_MARKS))
    some = list(reversed(marks))[::step][::-1]  # the last one always
    return LogTimes(
        marks=[LogMark(at=mark.at, left=size - mark.size) for mark in some if mark.size <= size]
    )
