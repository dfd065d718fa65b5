"""Recognises a program that ended well although its interpreter crashed afterwards: libraries abort
at exit when a thread of theirs still runs.

A gloo process group that the program did not destroy does so. So we leave the group before the
interpreter ends, and a mark before that: a crash after the mark is no failure of the program. While
its own exit handlers run, only a crash counts so, or a group that cannot be left in time: what else
kills the process from outside may have kept them from saving something.

A program that ends itself with another code than 0 leaves that in its mark: the code counts then,
and no crash after it. One that was asked to stop leaves its group, too; after other codes its peers
may be amid a step, and the group is let alone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from trainyard_job.common.exits import STOPPED
from trainyard_job.ranks import process_group

from ..common.failure import Failure

_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
#: What a mark says is over.
_MAIN, _ALL = "main", "all"
_CODE = "code "


class Ending:
    """Registered before the program, so that it comes after whatever the program registers, and
    after its threads.
    """

    def __init__(self) -> None:
        self._pid, self._well, self._stopped = os.getpid(), False, False
        atexit.register(self._at_exit)

    def well(self) -> None:
        """The program itself has ended, and well; its threads and exit handlers come now."""
        self._well = True
        atexit.register(self._leave, _MAIN)  # the last that registers is the first that runs

    def with_code(self, code: object) -> None:
        """The program has ended itself with this, which is not 0; its exit handlers come now."""
        self._stopped = code == STOPPED
        self._leave(f"{_CODE}{code & 0xFF if isinstance(code, int) else 1}")

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:  # a child that was forked from the program
            return
        if self._well:
            self._leave(_ALL)
        if self._well or self._stopped:
            process_group.leave()

    def _leave(self, over: str) -> None:
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(OSError, KeyError):
            mark = _mark(Path(os.environ["TRAINYARD_ATTEMPT_DIR"]), self._pid)
            mark.parent.mkdir(exist_ok=True)
            mark.write_text(over)


def _mark(attempt_dir: Path, pid: int) -> Path:
    node = os.environ.get("SLURMD_NODENAME") or "localhost"
    return attempt_dir / "ended-well" / f"{node}.{pid}"


def was_well(attempt_dir: Path, pid: int, number: int) -> bool:
    """Whether the program of this process, on this node, had ended well when the signal came."""
    over = _read(attempt_dir, pid)
    return over == _ALL or (over == _MAIN and number in (*_CRASHES, signal.SIGALRM))


def own_code(attempt_dir: Path, pid: int, number: int) -> int | None:
    """With which code the program of this process had ended itself before it crashed, or before its
    group's alarm came.
    """
    over = _read(attempt_dir, pid)
    if number not in (*_CRASHES, signal.SIGALRM) or not over.startswith(_CODE):
        return None
    code = over.removeprefix(_CODE)
    return int(code) if code.isdecimal() else None


def _read(attempt_dir: Path, pid: int) -> str:
    try:
        return _mark(attempt_dir, pid).read_text()
    except OSError:
        return ""


def judged(end: Failure, attempt_dir: Path) -> Failure:
    """The end of a process by its program's end, if that was well, or had a code of its own."""
    if end.signal is None or end.pid is None:
        return end
    if (code := own_code(attempt_dir, end.pid, end.signal)) is not None:
        return Failure(code, rank=end.rank, pid=end.pid)
    if not was_well(attempt_dir, end.pid, end.signal):
        return end
    return Failure(0, remark=_say(end.pid, end.signal))


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """What torchrun's agent starts its workers with, and asks how they ended."""

    _told = False

    def poll(self) -> int | None:
        code = super().poll()
        if code is None or code >= 0:
            return code
        attempt_dir = Path(os.environ["TRAINYARD_ATTEMPT_DIR"])
        if (own := own_code(attempt_dir, self.pid, -code)) is not None:
            return own
        if not was_well(attempt_dir, self.pid, -code):
            return code
        if not self._told:
            _REMARKS.append(_say(self.pid, -code))
            self._told = True
        return 0


#: What this process has said of its workers.
_REMARKS: list[str] = []


def remark() -> str | None:
    """The first of its workers that crashed after a good end, and how many others did."""
    if not _REMARKS:
        return None
    more = f"; so did {len(_REMARKS) - 1} more" if len(_REMARKS) > 1 else ""
    return f"{_REMARKS[0]}{more}"


def _say(pid: int, number: int) -> str:
    """Write it to the job's log; the run's timeline gets it, too."""
    text = (
        f"process {pid} was killed by {_name(number)} after its program had ended well: "
        "it counts as ended well"
    )
    with contextlib.suppress(OSError):
        print(f"trainyard: {text}", file=sys.stderr, flush=True)
    return text


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
