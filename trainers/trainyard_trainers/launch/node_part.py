"""Starts one node's part of an attempt's job and records how it ended; `srun` runs it once on every
node.

    python -m trainyard_trainers.launch <attempt dir>

Reads `job.json` (the fields of the job bundle) and `hosts` (lines `<node name> <address>`) of the
attempt's directory. Writes `launch-<node>.json` there: `{node, attempt, pid, started, ended,
exitCode, signal, rank, kind, error, traceback, failedPid, exception, lasting, memory, remark}`;
the fields after `started` come with the end. Standard library only: this process waits while torch
works in its child.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from trainyard_job.checkpoints import checkpoint
from trainyard_job.common import places
from trainyard_job.common.exits import STOPPED
from trainyard_job.common.files import write_json
from trainyard_job.common.signals import FORWARDED

from ..common import failure
from ..common.failure import Failure
from . import (
    descendants,
    ended_well,
    environments,
    interfaces,
    job_secrets,
    launchers,
    own_log,
    relay,
    script_mode,
)
from .allocation import HOSTS, Allocation, Job, Node
from .other_parts import OtherParts, let_others_say_the_same, tell
from .out_of_memory import MemoryWatch
from .step_daemon import StepDaemon

#: Where our packages lie: on a node in one directory, in a clone in two.
LIBRARY = tuple(
    dict.fromkeys(
        map(str, [Path(__file__).resolve().parents[2], Path(places.__file__).resolve().parents[2]])
    )
)
#: Each node has it at the same place, beside the library.
AGENT = Path(LIBRARY[0]).parent / "bin" / "trainyard-agent"
#: Says, across the exec into it, that this is the job's own environment.
ENTERED = "TRAINYARD_JOB_ENVIRONMENT"
#: More than a report with its traceback takes.
ROOM_BYTES = 16 * 1024
#: A pipe of Linux holds 64 KiB.
PIPE_BYTES = 60_000


def _set_environment(allocation: Allocation) -> None:
    """Everything below must be in place before torch is imported."""
    job = allocation.job
    if not os.environ.get(HOSTS):  # in a container of a training job all is there already
        os.environ.update(script_mode.of_node(allocation))
    os.environ.update({**script_mode.meeting_point(allocation), **job.environment()})
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(job.work_dir), *LIBRARY, *filter(None, [os.environ.get("PYTHONPATH")])],
    )
    sys.path[:0] = [str(job.work_dir), *LIBRARY]
    os.environ["PYTHONUNBUFFERED"] = "1"
    # When a library crashes, the stacks in the job's log are its only trace. So this is on from
    # the first import.
    if os.environ.setdefault("PYTHONFAULTHANDLER", "1"):
        faulthandler.enable()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Failed to initialize NumPy")
    # The host's name need not lead to an address that the others reach. All of loopback is `lo`.
    ours = "lo" if allocation.on_loopback else interfaces.interface_of(allocation.address)
    if ours is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", ours)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # Where it cannot be made, a program that needs it says so better than we could.
    with contextlib.suppress(OSError):
        job.output_dir.mkdir(exist_ok=True)
    if job.work_dir.is_dir():
        os.chdir(job.work_dir)


def _child(job: Job, node: Node, pipe: int, logs: Path | None) -> NoReturn:
    """The process in which the job runs; it reports its own end through the pipe.

    `logs`: where the ranks of this node write what they print.
    """
    allocation = Allocation.of(job, node)
    _set_environment(allocation)
    if logs is not None:
        os.environ[own_log.DIRECTORY] = str(logs)
    try:
        end = launchers.named(job.recipe).run(allocation)
    except launchers.CannotLaunch as refused:
        print(f"trainyard: {refused}", file=sys.stderr)
        end = Failure(1, error=f"recipe {job.recipe}: {refused}")
    os.write(pipe, _fitting(end))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(end.exit_code or 0)


def _fitting(end: Failure) -> bytes:
    """As JSON, short enough for a pipe that nobody reads before its writer has ended: a character
    may take 12 bytes.
    """
    text = json.dumps(end.as_json()).encode()
    if len(text) > PIPE_BYTES:
        end = replace(
            end,
            error=end.error and end.error[:500],
            traceback=end.traceback and end.traceback[-4000:],
        )
        text = json.dumps(end.as_json()).encode()
    return text


def _wait(pid: int, pipe: int, job: Job, error_file: Path, logs: relay.Relay | None) -> Failure:
    """Wait for the child, and join its own report with the end that the operating system saw."""
    status = descendants.wait_for(pid)
    left = descendants.end_all()
    if logs is not None:
        logs.finish()  # all who could write are dead, and what we say comes after it
    end = ended_well.judged(failure.of_status(status, pid), job.attempt_dir)
    if left:
        _say(
            f"{left} process{'' if left == 1 else 'es'} of the job outlived it and had to be killed"
        )
    chunks = []
    while chunk := os.read(
        pipe, 65536
    ):  # all writers are dead; what the child wrote fits into the pipe
        chunks.append(chunk)
    if chunks:
        report = Failure.from_json(json.loads(b"".join(chunks)))
        return replace(report, exit_code=end.exit_code)
    if end.signal == signal.SIGTERM:
        return Failure(STOPPED)
    return end.told(failure.read_error_file(error_file))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry; returns the exit code of this node's part: 0, an exit code of `exits`, 128 + signal,
    or the program's own.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 1:
        print("usage: python -m trainyard_trainers.launch <attempt dir>", file=sys.stderr)
        return 2
    job, node = Job.read(Path(arguments[0]).absolute()), Node.from_environment(os.environ)
    report = job.attempt_dir / places.launch_report(node.name)
    about = {
        "node": node.name,
        "attempt": job.document["attempt"],
        "pid": os.getpid(),
        "started": time.time(),
    }
    write_json(report, about)
    _make_no_cores()
    if problem := job_secrets.take(job, AGENT) or _enter_environment(job):
        write_json(report, {**about, "ended": time.time(), **problem.as_json()})
        return 1
    room = _keep_room(report)
    daemon, memory = StepDaemon(os.environ), MemoryWatch()
    descendants.adopt_orphans()
    reader, writer = os.pipe()
    logs = relay.directory(job.attempt_dir, node.name)
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(job, node, writer, logs)
    os.close(writer)
    passing = relay.Relay(logs, Allocation.of(job, node).processes).start() if logs else None
    others = OtherParts(job.attempt_dir, pid)
    _forward_signals(pid, others)
    daemon.watch(pid)
    # While the child imports torch.
    threading.Thread(target=checkpoint.read_ahead, args=(job.checkpoint_dir,), daemon=True).start()
    end = daemon.blamed_for(
        memory.blamed_for(
            others.blamed_for(_wait(pid, reader, job, job.error_file(node.name), passing))
        )
    )
    tell(job.attempt_dir, end)
    _write_end(report, {**about, "ended": time.time(), **end.as_json()}, room)
    return _exit_code(end, job, node)


def _make_no_cores() -> None:
    """A core has all that was in memory, secrets of the job too, and would be exported. A program
    that wants one raises its limit.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _exit_code(end: Failure, job: Job, node: Node) -> int:
    let_others_say_the_same(job.attempt_dir, end, set(node.names) - {node.name})
    return end.exit_code or 0


def _enter_environment(job: Job) -> Failure | None:
    """Go on in the interpreter of the job's own environment, built here if it is not there yet.

    Returns only where there is none, or it failed.
    """
    document = job.document.get("pythonEnvironment")
    if not document or os.environ.get(ENTERED):
        return None
    os.environ.update(job.environment())  # PIP_INDEX_URL and the like are the user's to say
    try:
        python = environments.ready(
            job.run_dir.parents[1] / "environments", environments.Wanted.of(document)
        )
    except (environments.EnvironmentFailed, OSError) as error:
        _say(f"the job's Python environment cannot be made: {error}")
        text = str(error)
        short = (
            text if len(text) <= 420 else f"{text[:120]} ... {text[-300:]}"
        )  # what was done, and the last words about it
        return Failure(1, error=f"job.pythonEnvironment cannot be made: {short}")
    os.environ[ENTERED] = str(python)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*LIBRARY, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    command = [str(python), "-m", "trainyard_trainers.launch", str(job.attempt_dir)]
    return os.execv(python, command)  # noqa: S606


def _keep_room(report: Path) -> Path:
    """A file that takes up room and is removed for the report of the end: that report is needed
    most when the shared filesystem is full.
    """
    room = report.with_name(f".{report.stem}.room")
    with contextlib.suppress(OSError):
        room.write_bytes(b"\0" * ROOM_BYTES)
    return room


def _write_end(report: Path, document: Mapping[str, Any], room: Path) -> None:
    """Write the report of the end; if even that fails, the agent still has the exit code."""
    try:
        room.unlink(missing_ok=True)
        write_json(report, document)
    except OSError as error:
        _say(f"{report} cannot be written: {error}")


def _say(text: str) -> None:
    """Write a line to the job's log.

    If nobody reads the log any more, the report of the end must be written all the same.
    """
    with contextlib.suppress(OSError):
        print(f"trainyard: {text}", file=sys.stderr, flush=True)


def _forward_signals(pid: int, others: OtherParts) -> None:
    def forward(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            others.watch()
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    for number in FORWARDED:
        signal.signal(number, forward)
