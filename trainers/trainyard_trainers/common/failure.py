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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainyard_job.common.exits import CHECKPOINT_FAILED, FENCED, MISCONFIGURED, STOPPED

from .all_ranks import all_ranks
from .exceptions import ENVIRONMENT, FILE, Account, account_of

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


#: Names the job's variables that hold secrets.
SECRETS = "TRAINYARD_JOB_SECRETS"
_HIDDEN = "(secret)"


def without_secrets(text: str) -> str:
    """An exception may quote its arguments, and what is written of it is kept."""
    for name in os.environ.get(SECRETS, "").split(","):
        value = os.environ.get(name, "") if name else ""
        for part in {value, *value.splitlines()}:
            if len(part) >= _SHORTEST:
                text = text.replace(part, _HIDDEN)
    return text


#: Signals with which a process ends itself.
_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
#: A shorter value would be found in many a word.
_SHORTEST = 6


@dataclass(frozen=True)
class Failure:
    """How a node's part of a job ended. `rank`, `error` and `pid` are of the first process that
    failed there.

    `out_of_memory`: what the kernel says of it, where it was killed for want of memory; `memory`:
    which one ran out by the program's own words. `exception`: the error's class; `lasting`: whether
    it would come again (both: `exceptions`). `remark`: what a person should know besides.
    """

    exit_code: int | None
    signal: int | None = None
    rank: int | None = None
    error: str | None = None
    traceback: str | None = None
    pid: int | None = None
    out_of_memory: str | None = None
    exception: str | None = None
    lasting: str | None = None
    memory: str | None = None
    remark: str | None = None

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
        if self.memory is not None:
            return "out-of-memory"
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
            "exception": self.exception,
            "lasting": self.lasting,
            "memory": self.memory or ("host" if self.out_of_memory else None),
            "remark": self.remark,
        }

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Failure:
        """What `as_json` wrote, except for what the kernel said: that is found out at the end."""
        return cls(
            report["exitCode"],
            report["signal"],
            report["rank"],
            report["error"],
            report["traceback"],
            report.get("failedPid"),
            exception=report.get("exception"),
            lasting=report.get("lasting"),
            memory=report.get("memory"),
            remark=report.get("remark"),
        )

    def told(self, told: Told) -> Failure:
        """The same end, with what the program said of it. A program that raised an exception and
        whose interpreter crashed on its way out failed by the exception.
        """
        if told.error and self.signal in _CRASHES:
            return replace(self, exit_code=1, signal=None).told(told)
        lasting = told.lasting
        if self.exit_code == MISCONFIGURED and told.error and told.memory is None:
            # The status of a command line that is wrong, and of our trainers for a configuration
            # that does not fit; what it does not fit may be one node.
            lasting = lasting or ENVIRONMENT
        return replace(
            self,
            error=told.error and without_secrets(told.error),
            traceback=told.traceback and without_secrets(told.traceback),
            exception=told.exception,
            lasting=lasting,
            memory=told.memory,
        )


@dataclass(frozen=True)
class Told:
    """What an error file says. `at`: when it was written, None if torch wrote it."""

    error: str | None = None
    traceback: str | None = None
    exception: str | None = None
    lasting: str | None = None
    memory: str | None = None
    at: float | None = None


def record_exception(error: BaseException) -> None:
    """Write the exception to $TORCHELASTIC_ERROR_FILE, if that is set.

    Where all ranks miss a file, each says so before any of them ends: launchers kill the others.
    """
    account = account_of(error)
    record(replace(account, lasting=None) if account.lasting == FILE else account)
    if account.lasting == FILE and all_ranks("missing"):
        record(replace(account, lasting=ENVIRONMENT))
        all_ranks("missing-told")


def record(account: Account) -> None:
    """Write it to $TORCHELASTIC_ERROR_FILE in torchelastic's format, if that is set.

    This is what torch's own @record does; without importing torch, so that plain programs get it
    too.
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    now = time.time()
    more = {"exception": account.exception, "lasting": account.lasting, "memory": account.memory}
    document = {
        "message": {
            "message": without_secrets(account.error),
            "extraInfo": {
                "py_callstack": without_secrets(account.traceback),
                "timestamp": str(int(now)),
                "trainyard": {**more, "at": now},
            },
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


def read_error_file(path: Path) -> Told:
    """What it says: nothing if there is none, less if torch's own @record wrote it."""
    try:
        message = json.loads(path.read_text(encoding="utf-8"))["message"]
        if isinstance(message, str):
            return Told(_one_line(message))
        more = message["extraInfo"]
        ours = more.get("trainyard") or {}
        return Told(
            _one_line(str(message["message"])),
            str(more["py_callstack"])[-8000:],
            ours.get("exception"),
            ours.get("lasting"),
            ours.get("memory"),
            ours.get("at"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Told()


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
    told = read_error_file(error_file) if error_file else Told()
    if exit_code < 0:
        # torchrun or Slurm sends SIGTERM when something else failed or a person asked for the end:
        # that is a stop, and no crash.
        number = -exit_code
        return (
            Failure(STOPPED, rank=rank)
            if number == signal.SIGTERM
            else Failure(128 + number, number, rank, pid=pid).told(
                told if number in _CRASHES else Told()
            )
        )
    return Failure(exit_code, rank=rank, pid=pid).told(told)
