"""Recognises a program that ended well although its interpreter crashed afterwards: libraries abort
at exit when a thread of theirs still runs.

A gloo process group that the program did not destroy does so about every second time ("terminate
called without an active exception"). So we destroy the group before the interpreter ends, and leave
a mark: a crash after the mark is no failure of the program.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from ..common.failure import Failure

#: A group whose peers hang may hang itself, and must not keep a program from ending.
_DESTROY_SECONDS = 10


class Ending:
    """Registered before the program, so that it comes after whatever the program registers, and
    after its threads.
    """

    def __init__(self) -> None:
        self._pid, self._well = os.getpid(), False
        atexit.register(self._at_exit)

    def well(self) -> None:
        """The program itself has ended, and well."""
        self._well = True

    def _at_exit(self) -> None:
        if not self._well or os.getpid() != self._pid:  # a child that was forked from the program
            return
        with contextlib.suppress(OSError, KeyError):
            mark = _mark(Path(os.environ["TRAINYARD_ATTEMPT_DIR"]), self._pid)
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
        _destroy_process_group()


def _destroy_process_group() -> None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process; its mark is made
    signal.alarm(_DESTROY_SECONDS)
    try:
        distributed.destroy_process_group()
    except (RuntimeError, ValueError, AssertionError) as error:
        print(
            f"trainyard: the process group could not be destroyed: {error}",
            file=sys.stderr,
            flush=True,
        )
    signal.alarm(0)


def _mark(attempt_dir: Path, pid: int) -> Path:
    node = os.environ.get("SLURMD_NODENAME") or "localhost"
    return attempt_dir / "ended-well" / f"{node}.{pid}"


def is_marked(attempt_dir: Path, pid: int) -> bool:
    """Whether the program of this process, on this node, ended well."""
    return _mark(attempt_dir, pid).exists()


def judged(end: Failure, attempt_dir: Path) -> Failure:
    """The end of a process by its program's end, if that was well."""
    if end.signal is None or end.pid is None or not is_marked(attempt_dir, end.pid):
        return end
    _say(end.pid, end.signal)
    return Failure(0)


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """What torchrun's agent starts its workers with, and asks how they ended."""

    _told = False

    def poll(self) -> int | None:
        code = super().poll()
        if (
            code is None
            or code >= 0
            or not is_marked(Path(os.environ["TRAINYARD_ATTEMPT_DIR"]), self.pid)
        ):
            return code
        if not self._told:
            _say(self.pid, -code)
            self._told = True
        return 0


def _say(pid: int, number: int) -> None:
    text = (
        f"trainyard: process {pid} was killed by signal {number} after its program had ended well: "
        "it counts as ended well"
    )
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)
