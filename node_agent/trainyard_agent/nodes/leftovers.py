"""Kills what older attempts of a run left on this node, and counts what a running one has there.

These are processes, and the Slurm step daemons that hold them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

_STEP_DAEMON = re.compile(rb"^slurmstepd: \[(\d+)\.")
# A killed process runs no more, but on a busy node takes a moment to be gone; one that waits for a
# disk may never be.
GONE_SECONDS = 1.0


def kill_leftovers(
    run_id: str,
    attempt: int,
    job_ids: Collection[str],
    node_name: str,
    *,
    node_root: str | None = None,
    proc: Path = Path("/proc"),
) -> int:
    """Kill until nothing is left (a process may fork while we look).

    Returns how many processes were killed. A process belongs to an older attempt if its environment
    carries the run's id, an attempt number of at most `attempt`, and this node's name (the nodes of
    a local cloud share one machine). A step daemon writes its title over its environment. On a
    shared machine its working directory, which it has from its slurmd, shows whose it is: it is
    below `node_root`. `node_root` is None on a machine of our own: there every step daemon of the
    job is meant.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        found = find(run_id, attempt, job_ids, node_name, node_root=node_root, proc=proc)
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except ProcessLookupError:
                continue
        time.sleep(0.005)
    return len(killed)


def find(
    run_id: str,
    attempt: int,
    job_ids: Collection[str],
    node_name: str,
    *,
    node_root: str | None,
    proc: Path,
) -> list[int]:
    """Pids to kill, the step daemons first: they would otherwise report and restart what we end."""
    daemons, others = [], []
    wanted_jobs = {job.encode() for job in job_ids}
    for name in os.listdir(proc):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(proc / name / "environ", "rb", buffering=0) as stream:
                environment = stream.read(262144)
            if f"TRAINYARD_RUN_ID={run_id}\0".encode() in environment:
                if _belongs(environment, attempt, node_name):
                    others.append(int(name))
                continue
            with open(proc / name / "cmdline", "rb", buffering=0) as stream:
                title = _STEP_DAEMON.match(stream.read(256))
        except OSError:
            continue
        if title and title.group(1) in wanted_jobs and _below(node_root, proc / name / "cwd"):
            daemons.append(int(name))
    return daemons + others


def count_alive(run_id: str, attempt: int, node_name: str, *, proc: Path = Path("/proc")) -> int:
    """How many processes of this very attempt's step run on this node.

    Not its batch script and the srun in it: these wait for a step whose daemon is gone for ever.
    """
    mark = f"TRAINYARD_RUN_ID={run_id}\0".encode()
    return sum(
        _is_of_step(environment, attempt, node_name)
        for environment in _environments(proc)
        if mark in environment
    )


def _environments(proc: Path) -> Iterator[bytes]:
    """Of each process that can be read; a zombie has none."""
    for name in os.listdir(proc):
        if name.isdigit():
            with contextlib.suppress(OSError), open(proc / name / "environ", "rb", 0) as stream:
                yield stream.read()


def _is_of_step(environment: bytes, attempt: int, node_name: str) -> bool:
    variables = _variables(environment)
    return (
        variables.get(b"TRAINYARD_ATTEMPT") == str(attempt).encode()
        and b"SLURM_STEP_ID" in variables
        and variables.get(b"SLURMD_NODENAME", b"").decode(errors="replace") == node_name
    )


def _below(node_root: str | None, link: Path) -> bool:
    if node_root is None:
        return True
    try:
        return os.path.commonpath(
            [os.path.realpath(node_root), os.readlink(link)]
        ) == os.path.realpath(node_root)
    except (OSError, ValueError):
        return False


def _belongs(environment: bytes, attempt: int, node_name: str) -> bool:
    variables = _variables(environment)
    number = variables.get(b"TRAINYARD_ATTEMPT", b"")
    return (
        number.isdigit()
        and int(number) <= attempt
        and variables.get(b"SLURMD_NODENAME", b"").decode(errors="replace") == node_name
    )


def _variables(environment: bytes) -> dict[bytes, bytes]:
    return dict(item.partition(b"=")[::2] for item in environment.split(b"\0"))
