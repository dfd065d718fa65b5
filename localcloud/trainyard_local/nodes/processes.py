"""Finds the processes of a node, a cluster or the whole local cloud, and kills them at once.

It knows them by their environment.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
KILL_ROUNDS = 200
#: These write their title over their whole environment (setproctitle), and are children of init.
TITLED = frozenset({"slurmstepd", "slurmscriptd"})
#: What trainyard_trainers names a rank that it forked.
RANK_NAME = re.compile(r"trainer-\d+")
#: Processes of a job that have no part in training, which goes on without them. srun forks itself.
BESIDE_RANKS = frozenset({"checkpoint-save", "srun"})
NODE_DIRECTORY = re.compile(
    r"(?P<state>/.*)/clusters/(?P<cluster>[a-z0-9]{12})/nodes/(?P<node>i-[0-9a-f]{17})(?:[/ ]|$)"
)


@dataclass(frozen=True)
class Process:
    """One living process of this user (root: of anybody)."""

    pid: int
    parent: int
    name: str
    environment: Mapping[str, str]

    @property
    def command(self) -> str:
        try:
            return (
                (PROC / str(self.pid) / "cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
                .strip()
            )
        except OSError:
            return ""


def worker_of(jobs: Sequence[Process]) -> Process:
    """One of a job's processes that trains.

    It is a rank that torchrun started (LOCAL_RANK) or forked (its name), else an innermost process.
    """
    working = [process for process in jobs if process.name not in BESIDE_RANKS]
    parents = {process.parent for process in jobs}
    ranks = [
        process
        for process in working
        if "LOCAL_RANK" in process.environment or RANK_NAME.fullmatch(process.name)
    ]
    innermost = [process for process in working if process.pid not in parents]
    return (ranks or innermost or working or jobs)[0]


def all_processes() -> list[Process]:
    """Every process whose environment can be read, but this one; zombies have none."""
    own = os.getpid()
    found = (
        _read(int(entry.name))
        for entry in os.scandir(PROC)
        if entry.name.isdigit() and int(entry.name) != own
    )
    return [process for process in found if process is not None]


def _read(pid: int) -> Process | None:
    directory = f"{PROC}/{pid}"
    try:
        with open(f"{directory}/environ", "rb") as file:
            raw = file.read()
        with open(f"{directory}/stat", "rb") as file:
            stat = file.read().decode(errors="replace")
    except OSError:
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    if fields[0] in "ZX":
        return None
    environment = dict(
        item.split("=", 1) for item in raw.decode(errors="replace").split("\0") if "=" in item
    )
    if name in TITLED and "TRAINYARD_LOCAL" not in environment:
        environment |= _tags_by_directory(directory)
    return Process(pid, int(fields[1]), name, environment)


def _tags_by_directory(directory: str) -> dict[str, str]:
    """The tags of a Slurm process that wrote its title over its environment.

    Its working directory is its slurmd's, which lies on the node's disk.
    """
    try:
        found = NODE_DIRECTORY.match(os.readlink(f"{directory}/cwd"))
    except OSError:
        return {}
    if not found:
        return {}
    return {
        "TRAINYARD_LOCAL": found["state"],
        "TRAINYARD_CLUSTER": found["cluster"],
        "TRAINYARD_NODE": found["node"],
    }


def alive(pid: int) -> bool:
    """A zombie is not alive: it runs no more."""
    return _read(pid) is not None


def matching(
    wanted: Callable[[Mapping[str, str]], bool], spare: Collection[int] = ()
) -> list[Process]:
    """Processes whose environment is `wanted`, and all their descendants.

    A program may have cleared its environment. Those in `spare` count neither as found nor as
    anybody's parent.
    """
    everything = all_processes()
    children: dict[int, list[Process]] = {}
    for process in everything:
        children.setdefault(process.parent, []).append(process)
    found = {
        process.pid: process
        for process in everything
        if process.pid not in spare and wanted(process.environment)
    }
    queue = list(found.values())
    while queue:
        for child in children.get(queue.pop().pid, []):
            if child.pid not in found and child.pid not in spare:
                found[child.pid] = child
                queue.append(child)
    return list(found.values())


def of_cloud(state_dir: Path) -> Callable[[Mapping[str, str]], bool]:
    """Everything that the local cloud with this state directory ever started."""
    tag = str(state_dir)
    return lambda environment: environment.get("TRAINYARD_LOCAL") == tag


def of_cluster(
    state_dir: Path, cluster_id: str, node_names: Iterable[str]
) -> Callable[[Mapping[str, str]], bool]:
    """Everything of one cluster: its nodes, its munge daemon, its jobs."""
    tag, names = str(state_dir), frozenset(node_names)
    return lambda environment: (
        environment.get("TRAINYARD_LOCAL") == tag
        and (
            environment.get("TRAINYARD_CLUSTER") == cluster_id
            or (
                environment.get("SLURMD_NODENAME") in names
                and environment.get("SLURM_CLUSTER_NAME", cluster_id) == cluster_id
            )
        )
    )


def of_node(
    state_dir: Path, instance_id: str, node_name: str, cluster_id: str
) -> Callable[[Mapping[str, str]], bool]:
    """Everything on one node.

    Its daemons (TRAINYARD_NODE), and the job processes that its slurmd started (SLURMD_NODENAME;
    nodes of two clusters may have the same name).
    """
    tag = str(state_dir)
    return lambda environment: (
        environment.get("TRAINYARD_NODE") == instance_id
        or (
            environment.get("TRAINYARD_LOCAL") == tag
            and environment.get("SLURMD_NODENAME") == node_name
            and environment.get("SLURM_CLUSTER_NAME", cluster_id) == cluster_id
        )
    )


def in_pid_namespace(namespace: int) -> list[Process]:
    """Every living process of one pid namespace, by the namespace's inode number."""
    found = []
    for process in all_processes():
        try:
            if os.stat(f"{PROC}/{process.pid}/ns/pid").st_ino == namespace:
                found.append(process)
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    """The processes that came of this one and whose parents live, nearest first."""
    children: dict[int, list[int]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process.pid)
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    return found


def kill(wanted: Callable[[Mapping[str, str]], bool], spare: Collection[int] = ()) -> int:
    """Kill all of them as one power cut would.

    First everything is stopped, so that none can notice the death of another, then SIGKILL comes.
    Returns how many processes were killed; when it returns, none is left.
    """
    killed: set[int] = set()
    for _ in range(KILL_ROUNDS):
        targets = freeze(wanted, spare)
        if not targets:
            return len(killed)
        for pid in targets:
            _signal(pid, signal.SIGKILL)
        killed |= targets
        # The kernel takes a moment to end a stopped process; there is nothing to await it by.
        time.sleep(0.01)
    raise RuntimeError(f"{len(freeze(wanted, spare))} processes survive SIGKILL")


def freeze(wanted: Callable[[Mapping[str, str]], bool], spare: Collection[int] = ()) -> set[int]:
    """SIGSTOP all that match, until no new one appears: one may have forked while we looked."""
    frozen: set[int] = set()
    while True:
        fresh = {process.pid for process in matching(wanted, spare)} - frozen
        if not fresh:
            return frozen
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        frozen |= fresh


def thaw(wanted: Callable[[Mapping[str, str]], bool]) -> None:
    """SIGCONT all that match; one that is not stopped does not notice."""
    for process in matching(wanted):
        _signal(process.pid, signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def stop_pids(pids: Iterable[int]) -> None:
    """SIGSTOP these processes only."""
    for pid in pids:
        _signal(pid, signal.SIGSTOP)


def continue_pids(pids: Iterable[int]) -> None:
    """SIGCONT these processes; one that is not stopped does not notice."""
    for pid in pids:
        _signal(pid, signal.SIGCONT)


def kill_pids(pids: Iterable[int]) -> None:
    """SIGKILL these processes only, and wait until they are gone."""
    _send_and_wait(set(pids), signal.SIGKILL, 5.0)


def end_pids(pids: Iterable[int]) -> None:
    """SIGTERM these processes, wait until they are gone, and SIGKILL what does not go."""
    kill_pids(_send_and_wait(set(pids), signal.SIGTERM, 5.0))


def _send_and_wait(waiting: set[int], number: signal.Signals, seconds: float) -> set[int]:
    """Those that are left after `seconds`; a zombie is gone: it runs no more."""
    for pid in waiting:
        _signal(pid, number)
    deadline = time.monotonic() + seconds
    while (
        waiting := {pid for pid in waiting if _read(pid) is not None}
    ) and time.monotonic() < deadline:
        time.sleep(0.01)
    return waiting
