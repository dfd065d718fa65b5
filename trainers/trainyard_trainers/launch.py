"""Starts one node's part of an attempt's job and records how it ended; `srun` runs it once on every node.

    python -m trainyard_trainers.launch <attempt dir>

Reads `job.json` (the fields of the job bundle) and `hosts` (lines `<node name> <address>`) of the attempt's directory. Writes
`launch-<node>.json` there: `{node, attempt, pid, started, ended, exitCode, signal, rank, kind, error, traceback}`; the fields after
`started` come with the end. Standard library only: this process waits while torch works in its child.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from . import descendants, failure
from .checkpoint import write_json
from .exits import STOPPED
from .failure import Failure
from .signals import FORWARDED

#: Rendezvous ports: below Linux's ephemeral range (from 32768), clear of Slurm's 6817 and 6818.
FIRST_PORT, PORTS = 10000, 10000
LIBRARY = Path(__file__).resolve().parents[1]
#: More than a report with its traceback takes.
ROOM_BYTES = 16 * 1024


@dataclass(frozen=True)
class Job:
    """What `job.json` says, with its directories."""

    attempt_dir: Path
    document: Mapping[str, Any]

    @classmethod
    def read(cls, attempt_dir: Path) -> Job:
        return cls(attempt_dir, json.loads((attempt_dir / "job.json").read_text(encoding="utf-8")))

    @property
    def run_dir(self) -> Path:
        return self.attempt_dir.parents[1]

    @property
    def files_dir(self) -> Path:
        return self.attempt_dir / "files"

    def command(self) -> list[str]:
        """The program and its arguments; a script becomes the path of the file that the bundle brought."""
        program = [str(part) for part in self.document["program"]]
        if program[0] != "-m":
            program[0] = str(self.files_dir / program[0])
        return [*program, *map(str, self.document.get("arguments") or [])]

    def environment(self) -> dict[str, str]:
        """The user's variables and, stronger, our own."""
        job = self.document
        number = {key: job.get(key) for key in ("checkpointEverySeconds", "checkpointEverySteps")}
        ours = {
            "TRAINYARD_RUN_ID": job["runId"],
            "TRAINYARD_ATTEMPT": job["attempt"],
            "TRAINYARD_RUN_DIR": self.run_dir,
            "TRAINYARD_ATTEMPT_DIR": self.attempt_dir,
            "TRAINYARD_CHECKPOINT_DIR": self.run_dir / (job.get("checkpointDirectory") or "checkpoints"),
            "TRAINYARD_CHECKPOINT_EVERY_SECONDS": number["checkpointEverySeconds"] or "",
            "TRAINYARD_CHECKPOINT_EVERY_STEPS": number["checkpointEverySteps"] or "",
            "TRAINYARD_CHECKPOINT_KEEP": job.get("checkpointKeep") or 3,
        }
        return {**{str(k): str(v) for k, v in (job.get("environment") or {}).items()}, **{k: str(v) for k, v in ours.items()}}


@dataclass(frozen=True)
class Node:
    """This node's place in the allocation, from Slurm's variables; without Slurm a single node on loopback."""

    name: str
    rank: int
    nodes: int
    first: str
    job_id: str

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Node:
        node_list = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or "localhost"
        first = first_host(node_list)
        return cls(
            name=env.get("SLURMD_NODENAME") or first,
            rank=int(env.get("SLURM_PROCID") or 0),
            nodes=int(env.get("SLURM_STEP_NUM_NODES") or env.get("SLURM_NNODES") or 1),
            first=first,
            job_id=env.get("SLURM_JOB_ID") or "0",
        )


def first_host(node_list: str) -> str:
    """The first host of a Slurm node list: `ip-10-0-0-[3-5,9]` -> `ip-10-0-0-3`. There srun starts process 0."""
    match = re.match(r"([^,\[]+)(?:\[([^\]]+)\]([^,\[]*))?", node_list)
    if not match:
        raise ValueError(f"SLURM node list '{node_list}' names no host")
    prefix, numbers, suffix = match.groups()
    return str(prefix) if numbers is None else f"{prefix}{re.split('[-,]', numbers)[0]}{suffix}"


def read_hosts(path: Path) -> dict[str, str]:
    """Addresses by node name; empty without the file (a node's name must then resolve by itself)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {words[0]: words[1] for line in lines if len(words := line.split()) >= 2}


def rendezvous_port(run_id: str, attempt: int, job_id: str) -> int:
    """A port of the attempt's own: whatever a dead attempt still holds is never in the way."""
    digest = hashlib.sha256(f"{run_id}/{attempt}/{job_id}".encode()).digest()
    return FIRST_PORT + int.from_bytes(digest[:4], "big") % PORTS


def _set_environment(job: Job, address: str) -> None:
    """Everything below must be in place before torch is imported."""
    os.environ.update(job.environment())
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(job.files_dir), str(LIBRARY), *filter(None, [os.environ.get("PYTHONPATH")])],
    )
    sys.path[:0] = [str(job.files_dir), str(LIBRARY)]
    os.environ["PYTHONUNBUFFERED"] = "1"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Failed to initialize NumPy")
    # gloo takes the address of the host's name, which need not be one that the others reach; on loopback it always is `lo`.
    if address.startswith("127."):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if job.files_dir.is_dir():
        os.chdir(job.files_dir)


def _run_torchrun(job: Job, node: Node, hosts: Mapping[str, str]) -> Failure:
    from . import elastic  # here, so that a plain program never pays for it

    attempt, run_id = int(job.document["attempt"]), str(job.document["runId"])
    placement = elastic.Placement(
        nodes=node.nodes,
        node_rank=node.rank,
        processes=int(job.document.get("processesPerNode") or 1),
        master_address=hosts.get(node.first, "127.0.0.1" if node.first == "localhost" else node.first),
        master_port=rendezvous_port(run_id, attempt, node.job_id),
        local_address=hosts.get(node.name, "127.0.0.1" if node.name == "localhost" else node.name),
        run=f"{run_id}-{attempt}",
        log_dir=job.attempt_dir / "torchrun" / node.name,
    )
    return elastic.run(placement, job.command())


def _child(job: Job, node: Node, pipe: int) -> NoReturn:
    """The process in which the job runs; its end, as it saw it itself, goes through the pipe."""
    hosts = read_hosts(job.attempt_dir / "hosts")
    _set_environment(job, hosts.get(node.name, "127.0.0.1" if node.name == "localhost" else ""))
    if job.document.get("recipe") == "command":
        os.environ["TORCHELASTIC_ERROR_FILE"] = str(_error_file(job, node))
        os.execv(sys.executable, [sys.executable, "-u", "-m", "trainyard_trainers.program", *job.command()])  # noqa: S606
    end = _run_torchrun(job, node, hosts)
    os.write(pipe, json.dumps(end.as_json()).encode()[:60000])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(end.exit_code or 0)


def _error_file(job: Job, node: Node) -> Path:
    return job.attempt_dir / f"error-{node.name}.json"


def _wait(pid: int, pipe: int, error_file: Path) -> Failure:
    """Wait for the child, and join what it told us with how the operating system saw it end."""
    end = failure.of_status(descendants.wait_for(pid))
    if left := descendants.end_all():
        print(
            f"trainyard: {left} process{'' if left == 1 else 'es'} of the job outlived it and had to be killed", file=sys.stderr, flush=True
        )
    chunks = []
    while chunk := os.read(pipe, 65536):  # all who could write to it are dead; what the child wrote fits into the pipe
        chunks.append(chunk)
    if chunks:
        told = json.loads(b"".join(chunks))
        return replace(end, signal=told["signal"], rank=told["rank"], error=told["error"], traceback=told["traceback"])
    if end.signal == signal.SIGTERM:
        return Failure(STOPPED)
    error, stack = failure.read_error_file(error_file)
    return replace(end, error=error, traceback=stack)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry; returns the exit code of this node's part: 0, an exit code of `exits`, 128 + signal, or the program's own."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 1:
        print("usage: python -m trainyard_trainers.launch <attempt dir>", file=sys.stderr)
        return 2
    job, node = Job.read(Path(arguments[0]).absolute()), Node.from_environment(os.environ)
    report = job.attempt_dir / f"launch-{node.name}.json"
    about = {"node": node.name, "attempt": job.document["attempt"], "pid": os.getpid(), "started": time.time()}
    write_json(report, about)
    room = _keep_room(report)
    descendants.adopt_orphans()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(job, node, writer)
    os.close(writer)
    _forward_signals(pid)
    end = _wait(pid, reader, _error_file(job, node))
    _write_end(report, {**about, "ended": time.time(), **end.as_json()}, room)
    return end.exit_code or 0


def _keep_room(report: Path) -> Path:
    """A file that is given up for the report of the end, which is wanted most when the shared filesystem is full."""
    room = report.with_name(f".{report.stem}.room")
    with contextlib.suppress(OSError):
        room.write_bytes(b"\0" * ROOM_BYTES)
    return room


def _write_end(report: Path, document: Mapping[str, Any], room: Path) -> None:
    """Where even that fails, the exit code must still tell the agent what it can."""
    try:
        room.unlink(missing_ok=True)
        write_json(report, document)
    except OSError as error:
        print(f"trainyard: {report} cannot be written: {error}", file=sys.stderr, flush=True)


def _forward_signals(pid: int) -> None:
    def forward(number: int, _frame: FrameType | None) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    for number in FORWARDED:
        signal.signal(number, forward)


if __name__ == "__main__":
    sys.exit(main())
