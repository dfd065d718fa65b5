"""Reads the logs of an attempt's ranks, a file for each, which the ranks wrote themselves."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.host.job_files import read_small
from trainyard_agent.jobs import log_times
from trainyard_agent.jobs.log_times import Mark
from trainyard_agent.jobs.progress import CLOCK_SECONDS
from trainyard_agent.jobs.traces import matching_lines, read_tail
from trainyard_contracts import places
from trainyard_contracts.commands import Logs, Tail
from trainyard_contracts.rank_logs import heading, joined

#: Several logs share the bytes of an answer, and of each there is at least so much.
LEAST_BYTES = 1024


@dataclass(frozen=True)
class RankLog:
    """`rank` is None of a program that runs once on its node."""

    node: str
    rank: int | None
    path: Path
    size: int


def is_there(directory: Path) -> bool:
    """Whether the attempt's launchers made a place for such logs: older versions did not."""
    return (directory / places.RANK_LOGS).is_dir()


def found(directory: Path, node: str = "") -> list[RankLog]:
    """By rank and node. `node`: of that one only. Raises OSError."""
    top = directory / places.RANK_LOGS
    try:
        names = [node] if node else sorted(os.listdir(top))
        logs = [log for name in names for log in _of_node(top / name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(logs, key=lambda log: (-1 if log.rank is None else log.rank, log.node))


def _of_node(directory: Path) -> list[RankLog]:
    if directory.is_symlink() or not directory.is_dir():
        return []
    logs = []
    for entry in os.scandir(directory):
        named = places.RANK_LOG_NAME.match(entry.name)
        about = entry.stat(follow_symlinks=False)
        if named and stat.S_ISREG(about.st_mode):
            rank = int(named[1]) if named[1] else None
            logs.append(RankLog(directory.name, rank, Path(entry.path), about.st_size))
    return logs


def marks(directory: Path, node: str) -> dict[str, list[Mark]]:
    """By the file's name how long it was at which time, oldest first. What is no mark is left out:
    a job may write there, too.
    """
    path = directory / places.rank_logs(node) / places.RANK_LOG_TIMES
    try:
        body = read_small(directory, path, 2 * log_times.MOST_BYTES)
    except OSError:
        return {}
    by_name: dict[str, list[Mark]] = defaultdict(list)
    for line in body.decode(errors="replace").splitlines():
        at, *pairs = line.split() or [""]
        for name, size in zip(pairs[::2], pairs[1::2], strict=False):
            if all(len(word) < 20 and word.isascii() and word.isdigit() for word in (at, size)):
                by_name[name].append(Mark(int(at), int(size)))
    return {name: log_times.rising(found) for name, found in by_name.items()}


def tail(directory: Path, given: Logs, begin: float | None, limit: int) -> Tail:
    """The tail of the logs that are asked for; of each so many lines. Raises OSError.

    `begin`: only what was printed from then on, as the controller's clock has it.
    """
    if not is_there(directory):
        return Tail(lacks=True)
    logs = [log for log in found(directory, given.node) if log.rank == given.rank or given.node]
    share = max(LEAST_BYTES, limit // max(1, len(logs)))
    parts = [
        (log, _lines(directory, log, given, _start(directory, log, begin), share)) for log in logs
    ]
    if given.node and any(log.rank is not None for log in logs):
        return Tail(joined((heading(log.node, log.rank), text) for log, text in parts))
    return Tail("\n".join(text for _, text in parts if text))


def _start(directory: Path, log: RankLog, begin: float | None) -> int:
    """The marks are by the node's clock, which may be behind the controller's."""
    if begin is None:
        return 0
    known = marks(directory, log.node).get(log.path.name, [])
    return log_times.offset(known, begin - CLOCK_SECONDS)


def _lines(directory: Path, log: RankLog, given: Logs, start: int, limit: int) -> str:
    wanted = bytes.fromhex(given.contains)
    if wanted:
        return matching_lines(log.path, wanted, given.lines, limit, start, root=directory)
    text = read_tail(log.path, limit, start, root=directory)
    return "\n".join(text.splitlines()[-given.lines :])
