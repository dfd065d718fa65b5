"""Ends on its node every process that a job started: a process that detaches itself becomes the
launcher's child, and ends with the launcher.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

#: Linux, <sys/prctl.h>.
_PR_SET_CHILD_SUBREAPER = 36
#: A process in an uninterruptible wait (a dead filesystem) does not even hear SIGKILL; the end of
#: the job must still be told.
_SECONDS = 5.0


def adopt_orphans() -> None:
    """From now on descendants whose parents end become our children (prctl(2)); they are then found
    without looking at their names.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        print(
            f"trainyard: orphans cannot be adopted: {os.strerror(ctypes.get_errno())}",
            file=sys.stderr,
            flush=True,
        )


def children() -> list[int]:
    """Pids of this process's children, of all its threads."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += [int(pid) for pid in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def wait_for(pid: int) -> int:
    """The wait status of this child; adopted ones that end before it are buried."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return status


def end_all() -> int:
    """SIGKILL every child until none is left: the orphans of those that die become our children,
    and are next. Returns how many.
    """
    ended, deadline = 0, time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        for pid in children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            ended += (
                os.waitstatus_to_exitcode(status) == -signal.SIGKILL
            )  # processes that had ended before needed no kill
        else:
            time.sleep(0.005)
    return ended
