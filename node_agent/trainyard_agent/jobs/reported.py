"""Reads what an attempt reported, from the files that its program wrote.

These may be large, torn, or anything else: a line that says nothing is passed over.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from trainyard_agent.host.job_files import may_pass, open_inside, read_small
from trainyard_agent.jobs.collected import Collected, finite, step_of
from trainyard_contracts import places
from trainyard_contracts.curves import LOSS, MOST_BYTES, KeptCurves, Point
from trainyard_contracts.progress_file import LATEST

#: So much is read at once; a longer line is passed over.
BLOCK_BYTES = 1024**2
#: After each block: others of this process want to run.
PAUSE_SECONDS = 0.005
#: A file of metrics is written anew each time; of a larger one that is read only at the end.
OFTEN_BYTES = 64 * 1024**2
#: What a line of a step says beside the program's own numbers.
_TIMES = ("samplesPerSecond", "stepSeconds", "dataSeconds")


@dataclass
class Reported:
    """One attempt. All of it blocks, and one thread at a time may use it."""

    directory: Path
    steps: Collected = field(default_factory=Collected)
    metrics: Collected = field(default_factory=Collected)
    _inode: int = 0
    _offset: int = 0
    _seen: tuple[int, int, int] = (0, 0, 0)

    def look(self, *, last: bool = False) -> None:
        """Take up what is new. `last`: also a line without an end, and a large file.

        Raises OSError where a file cannot be read just now.
        """
        self._look_at_steps(last)
        self._look_at_metrics(last)

    def _look_at_steps(self, last: bool) -> None:
        """The file grows: only what was added is read."""
        stream = self._opened(places.STEPS)
        if stream is None:
            return
        with stream:
            about = os.fstat(stream.fileno())
            if about.st_ino != self._inode or about.st_size < self._offset:
                self.steps, self._inode, self._offset = Collected(), about.st_ino, 0
            stream.seek(self._offset)
            for line, read in lines_of(stream, last=last):
                take_step(self.steps, line)
                self._offset += read

    def _look_at_metrics(self, last: bool) -> None:
        """The file is replaced: it is read as a whole where it changed."""
        stream = self._opened(places.METRICS)
        if stream is None:
            return
        with stream:
            about = os.fstat(stream.fileno())
            seen = (about.st_ino, about.st_size, about.st_mtime_ns)
            if seen == self._seen or (about.st_size > OFTEN_BYTES and not last):
                return
            found = Collected()
            for line, _ in lines_of(stream, last=True):
                take_metrics(found, line)
        self.metrics, self._seen = found, seen

    def _opened(self, name: str) -> IO[bytes] | None:
        """None where it is not there, or the job put something else in its place."""
        try:
            return open_inside(self.directory, self.directory / name)
        except OSError as error:
            if may_pass(error):
                raise
            return None


def lines_of(stream: IO[bytes], *, last: bool) -> Iterator[tuple[bytes, int]]:
    """Each whole line with its length; of what is longer than a block an empty one.

    `last`: also what follows the last end of a line.
    """
    rest, dropped = b"", 0
    while block := stream.read(BLOCK_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield (b"" if dropped else line), len(line) + 1 + dropped
            dropped = 0
        if len(rest) >= BLOCK_BYTES:
            dropped, rest = dropped + len(rest), b""
        time.sleep(PAUSE_SECONDS)
    if last and rest and not dropped:
        yield rest, len(rest)


def take_step(found: Collected, line: bytes) -> None:
    """A line of steps.jsonl: the loss, and all other numbers."""
    said = _object(line)
    step = step_of(said)
    if step is None:
        return
    at = _time_of(said)
    told = [name for name in said if name not in ("step", "at", LOSS)]
    if not said.get("stepSeconds"):  # the program said nothing of times
        told = [name for name in told if name not in _TIMES]
    for name in (LOSS, *told):
        if said.get(name) is not None:
            found.add(name, step, at, said[name])


def take_metrics(found: Collected, line: bytes) -> None:
    """A line of metrics.jsonl."""
    said = _object(line)
    step, metrics = step_of(said), said.get("metrics")
    if step is not None and isinstance(metrics, dict):
        at = _time_of(said)
        for name, value in metrics.items():
            found.add(name, step, at, value)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line) if line.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _time_of(line: dict[str, Any]) -> float:
    """Seconds since the epoch; the time of the look where the line has none."""
    at = line.get("at")
    known = finite(at) if isinstance(at, int | float) and not isinstance(at, bool) else None
    return known if known is not None and 0 <= known < LATEST else time.time()


def losses_kept(directory: Path) -> list[Point]:
    """The losses that this agent kept before it was restarted, by their steps.

    Raises OSError where the file cannot be read just now.
    """
    try:
        body = read_small(directory, directory / places.KEPT_CURVES, MOST_BYTES)
        curves = KeptCurves.model_validate_json(body).curves
    except ValueError:
        return []
    except OSError as error:
        if may_pass(error):
            raise
        return []
    return next((curve.points for curve in curves if curve.name == LOSS), [])
