"""One rank of a launcher that is not torchrun's: it runs the program in a child and writes down how
the program ended, which such launchers do not report.

Each rank has a report, `ranks/<node>.<rank>.json` in the attempt's directory: `{node, rank, pid,
started}` at once and `{ended, exitCode, signal, error, traceback}` at its end. From all of them a
node's launcher says whose failure came first (`outcome`).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from trainyard_job.common.exits import STOPPED
from trainyard_job.common.files import write_json
from trainyard_job.common.signals import FORWARDED

from ..common import failure
from ..common.failure import Failure
from . import ended_well, loopback, own_log, program
from .allocation import Allocation

#: What every rank must find in its environment, as torch's `env://` rendezvous reads it.
PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
#: So long a rank that stopped waits for the others; the agent kills what is left of a cancelled job
#: after 20 seconds.
_SAVE_SECONDS = 10.0
_POLL_SECONDS = 0.05
#: Linux, <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1


def tell(allocation: Allocation) -> None:
    """Put into the environment what the ranks of this node must know of the job."""
    os.environ["TRAINYARD_WORLD_SIZE"] = str(allocation.world_size)
    os.environ["TRAINYARD_NODE_NAME"] = allocation.node.name
    os.environ["MASTER_ADDR"] = allocation.master_address
    os.environ["MASTER_PORT"] = str(allocation.master_port)
    _reports(allocation.job.attempt_dir).mkdir(exist_ok=True)


def wrong_world(environment: dict[str, str]) -> str | None:
    """What is wrong with the place that the launcher gave this process; None = it is one rank of
    the world that was asked for.
    """
    missing = [name for name in PLACE if not environment.get(name)]
    asked = environment.get("TRAINYARD_WORLD_SIZE", "")
    if missing:
        return (
            f"the launcher did not set {', '.join(missing)}, so this process would train alone "
            f"instead of as one of {asked}"
        )
    if environment["WORLD_SIZE"] != asked:
        formed = environment["WORLD_SIZE"]
        return (
            f"the launcher formed {formed} process{'' if formed == '1' else 'es'}, but the job "
            f"asks for {asked} (nodes x "
            "processesPerNode): each group would train a model of its own"
        )
    return None


# -- in the rank's process -----------------------------------------------------------------------
def run(command: Sequence[str], before: Callable[[], None] = lambda: None) -> None:
    """Run the program as this rank, in a child; this process ends as the child does.

    `before` is called in the child first.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)  # its launcher is deaf to them
    attempt_dir = Path(os.environ["TRAINYARD_ATTEMPT_DIR"])
    rank, node = os.environ.get("RANK") or "0", os.environ["TRAINYARD_NODE_NAME"]
    report = _reports(attempt_dir) / f"{node}.{rank}.json"
    about = {"node": node, "rank": int(rank), "pid": os.getpid(), "started": time.time()}
    if wrong := wrong_world(dict(os.environ)):
        print(f"trainyard: {wrong}", file=sys.stderr)
        refused = Failure(1, rank=int(rank), error=f"WrongWorldSize: {wrong}")
        write_json(report, {**about, "ended": time.time(), **refused.as_json()})
        sys.exit(1)
    write_json(report, about)
    error_file = report.with_suffix(".error")
    os.environ["TORCHELASTIC_ERROR_FILE"] = str(error_file)
    pid = os.fork()
    if pid == 0:
        _become(rank)
        before()
        program.run(command)
        return
    _forward_to(pid)
    end = ended_well.judged(failure.of_status(os.waitpid(pid, 0)[1], pid), attempt_dir)
    end = (
        Failure(STOPPED, rank=int(rank))
        if end.signal == signal.SIGTERM
        else replace(end.told(failure.read_error_file(error_file)), rank=int(rank))
    )
    write_json(report, {**about, "ended": time.time(), **end.as_json()})
    if end.kind == "stopped":
        _await_others(attempt_dir)
    os._exit(end.exit_code or 0)


def _await_others(attempt_dir: Path) -> None:
    """Wait for the other ranks: when one rank ends with a code other than 0, launchers kill the
    others, which may still be saving.
    """
    deadline = time.monotonic() + _SAVE_SECONDS
    while time.monotonic() < deadline and any(
        "ended" not in report for report in _read(attempt_dir)
    ):
        time.sleep(_POLL_SECONDS)


def _become(rank: str) -> None:
    own_log.take()
    ctypes.CDLL(None).prctl(
        _PR_SET_PDEATHSIG, signal.SIGKILL
    )  # a rank whose launcher is dead must not go on writing
    # As elastic.py names its ranks: what looks for a job's ranks from outside finds them by it.
    Path("/proc/self/comm").write_text(f"trainer-{rank}"[:15])
    if os.environ["MASTER_ADDR"].startswith("127."):
        loopback.keep_stores("torch.distributed.rendezvous")


def _forward_to(pid: int) -> None:
    def forward(number: int, _frame: FrameType | None) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    for number in FORWARDED:
        signal.signal(number, forward)


# -- in the launcher -----------------------------------------------------------------------------
def pass_signals_on(allocation: Allocation) -> None:
    """Pass this process's signals on to the ranks of its node from now on: launchers would end or
    kill ranks that should save.
    """

    def forward(number: int, _frame: FrameType | None) -> None:
        ranks = [report for report in _all(allocation) if report["node"] == allocation.node.name]
        if not ranks and number == signal.SIGTERM:
            os._exit(STOPPED)
        for report in ranks:
            if "ended" not in report:
                _kill(report["pid"], number)

    for number in FORWARDED:
        signal.signal(number, forward)


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def start(
    argv: Sequence[str], environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a launcher's program, deaf to what is meant for the ranks.

    Slurm signals every process of a job, and a launcher that hears SIGTERM kills ranks that are
    about to save.
    """
    return subprocess.Popen(
        list(argv),
        env=environment,
        stdin=subprocess.DEVNULL,
        preexec_fn=_be_deaf,  # noqa: PLW1509 - no threads here
    )


def _be_deaf() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)


def outcome(allocation: Allocation, exit_code: int) -> Failure:
    """How this node's part ended, from what all ranks wrote and the launcher's exit code.

    The first failure of the whole job belongs to the node on which it happened; others failed in
    consequence.
    """
    reports = _all(allocation)
    here = [rank for rank in reports if rank["node"] == allocation.node.name]
    failed = sorted(
        (rank for rank in reports if _of(rank).kind not in (None, "stopped")),
        key=lambda rank: float(rank["ended"]),
    )
    causes = [rank for rank in failed if _of(rank).kind != "peer"] or failed
    if causes:
        return _seen_from_here(allocation, causes)
    unended = [rank for rank in here if "ended" not in rank]
    if unended:  # its keeper was killed together with it
        return Failure(128 + signal.SIGKILL, int(signal.SIGKILL), unended[0]["rank"])
    if any(_of(rank).kind == "stopped" for rank in reports):
        return Failure(STOPPED)
    if exit_code == 0 and len(here) != allocation.processes:
        error = (
            f"{len(here)} of this node's {allocation.processes} processes were started, and the "
            "launcher calls that a success"
        )
        return Failure(1, error=f"WrongWorldSize: {error}")
    number = -exit_code if exit_code < 0 else exit_code - 128
    # Codes above are no signals: a launcher's own -43 comes as 213.
    if 0 < number < signal.NSIG:
        return Failure(128 + number, number)
    remarks = [rank["remark"] for rank in here if rank.get("remark")]
    return Failure(exit_code, remark=remarks[0] if remarks else None)


def _seen_from_here(allocation: Allocation, causes: Sequence[dict[str, Any]]) -> Failure:
    """The first cause on its own node; on others a consequence, unless they say the very same:
    what is missing on all nodes stays missing.
    """
    first = causes[0]
    for cause in causes:
        same = cause is first or (
            cause.get("lasting") and cause.get("exception") == first.get("exception")
        )
        if cause["node"] == allocation.node.name and same:
            return _of(cause)
    print(
        f"trainyard: rank {first['rank']} on {first['node']} failed first",
        file=sys.stderr,
        flush=True,
    )
    return Failure(1, error=f"another rank failed first: rank {first['rank']} on {first['node']}")


def _of(report: dict[str, Any]) -> Failure:
    """A rank that has not ended has not failed."""
    if "ended" not in report:
        return Failure(0)
    return Failure.from_json(report)


def _all(allocation: Allocation) -> list[dict[str, Any]]:
    return _read(allocation.job.attempt_dir)


def _read(attempt_dir: Path) -> list[dict[str, Any]]:
    return [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(_reports(attempt_dir).glob("*.json"))
    ]


def _reports(attempt_dir: Path) -> Path:
    return attempt_dir / "ranks"
