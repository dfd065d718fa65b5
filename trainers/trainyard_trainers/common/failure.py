"""What a failed process leaves for the diagnosis: its exception in an error file, and one word for
the kind of failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .exits import CHECKPOINT_FAILED, FENCED, STOPPED

#: Texts of errors that a healthy rank raises because another one went away: a consequence, never a
#: cause.
_PEER_TEXTS = (
    "another rank failed first",
    "connection closed by peer",
    "connection reset by peer",
    "connection refused",
    "connectfullmesh failed",
    "gloo/transport",
    "socket closed",
    "broken pipe",
    "timed out waiting",
    "nccl error",
    "distbackenderror",
    "distnetworkerror",
    "diststoreerror",
)


@dataclass(frozen=True)
class Failure:
    """How a node's part of a job ended. `rank`, `error` and `pid` are of the first process that
    failed there.

    `out_of_memory`: what the kernel says of it, where it was killed for want of memory.
    """

    exit_code: int | None
    signal: int | None = None
    rank: int | None = None
    error: str | None = None
    traceback: str | None = None
    pid: int | None = None
    out_of_memory: str | None = None

    @property
    def kind(self) -> str | None:
        """stopped, fenced, checkpoint, out-of-memory, signal, peer (another rank vanished),
        python-error or exit; None = no failure.
        """
        by_code = {0: None, STOPPED: "stopped", FENCED: "fenced", CHECKPOINT_FAILED: "checkpoint"}
        if self.signal is not None:
            return "signal" if self.out_of_memory is None else "out-of-memory"
        if self.exit_code in by_code:
            return by_code[self.exit_code]
        if self.error is None:
            return "exit"
        return "peer" if any(text in self.error.lower() for text in _PEER_TEXTS) else "python-error"

    def as_json(self) -> dict[str, Any]:
        return {
            "exitCode": self.exit_code,
            "signal": self.signal,
            "rank": self.rank,
            "kind": self.kind,
            "error": self.out_of_memory or self.error,
            "traceback": self.traceback,
            "failedPid": self.pid,
        }


def record_exception(error: BaseException) -> None:
    """Write the exception to $TORCHELASTIC_ERROR_FILE in torchelastic's format, if that is set.

    This is what torch's own @record does; without importing torch, so that plain programs get it
    too.
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    stack = "".join(traceback.format_exception(error))
    text = f"{type(error).__name__}: {error}"
    document = {
        "message": {
            "message": text,
            "extraInfo": {"py_callstack": stack, "timestamp": str(int(time.time()))},
        }
    }
    try:
        Path(path).write_text(json.dumps(document), encoding="utf-8")
    except (
        OSError
    ) as unwritable:  # a full disk must not hide the exception itself, which goes to stderr next
        print(f"trainyard: {path} cannot be written: {unwritable}", file=sys.stderr, flush=True)
        with contextlib.suppress(OSError):
            Path(path).unlink()  # torchrun breaks on half a file, and loses the exit code with it


def read_error_file(path: Path) -> tuple[str | None, str | None]:
    """(error in one line, traceback) of an error file; (None, None) if there is none."""
    try:
        message = json.loads(path.read_text(encoding="utf-8"))["message"]
        if isinstance(message, str):
            return _one_line(message), None
        return _one_line(str(message["message"])), str(message["extraInfo"]["py_callstack"])[-8000:]
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


def _one_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[0][:500]


def of_status(status: int, pid: int | None = None) -> Failure:
    """From a wait status of the operating system."""
    code = os.waitstatus_to_exitcode(status)
    return Failure(128 - code, signal=-code, pid=pid) if code < 0 else Failure(code, pid=pid)


def of_worker(
    exit_code: int, rank: int | None, error_file: Path | None, pid: int | None = None
) -> Failure:
    """From the exit code of a torchrun worker (negative: killed by that signal) and its error
    file.
    """
    error, stack = read_error_file(error_file) if error_file else (None, None)
    if exit_code < 0:
        # torchrun or Slurm sends SIGTERM when something else failed or a person asked for the end:
        # that is a stop, and no crash.
        number = -exit_code
        return (
            Failure(STOPPED, rank=rank)
            if number == signal.SIGTERM
            else Failure(128 + number, number, rank, pid=pid)
        )
    return Failure(exit_code, rank=rank, error=error, traceback=stack, pid=pid)
