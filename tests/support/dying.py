"""A process that is killed at the n-th line of a file or of a package."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class Killed(BaseException):
    """Stands for a kill where a real one is not needed."""


def dies(code: str | tuple[str, ...] | None, line: int, work: Callable[[], object]) -> bool:
    """Whether `work`, in a process of its own, came to so many lines of the code and was killed.

    `code`: paths of files or directories, or one; the lines of all threads count. Raises
    AssertionError where the work fails by itself.

    A tracer that raises instead is no kill: `finally` and `with` still run, or are cut short with
    their lock held, and Python 3.11 may keep an exception that was just handled for ever.
    """
    pid = os.fork()
    if pid == 0:
        failed = 1
        try:
            die_at(code, line)
            work()
            failed = 0
        finally:
            os._exit(failed)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL), f"it failed by itself, with status {status}"
    return status != 0


def die_at(code: str | tuple[str, ...] | None, line: int) -> None:
    """Kill this process once it, or a thread that it starts, came to so many lines of the code."""
    assert code is not None
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(code):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)
