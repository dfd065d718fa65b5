"""Finds out whether the kernel killed a process of the job for want of memory: SIGKILL alone does
not say who sent it, or why.

Evidence, the surest first: the kernel's log names the killed process (readable as root), the
counters of the job's own memory cgroup (v2 `memory.events`, v1 `memory.oom_control`), the machine's
counter in `/proc/vmstat`. The groups above the job's count their other children's kills, too, so
they are asked for the limit only.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGKILL

from ..common.cgroups import job_part, memory_groups
from ..common.failure import Failure

_PROC, _CGROUPS, _LOG = Path("/proc"), Path("/sys/fs/cgroup"), Path("/dev/kmsg")
_KILLED = re.compile(r"[Kk]illed process (\d+) \(([^)]*)\)(?:.*?anon-rss:(\d+)kB)?")
_COUNTER = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Kill:
    """One line of the kernel's log."""

    pid: int
    name: str
    resident_bytes: int | None


class MemoryWatch:
    """Made when the job starts on this node, asked when a process of it was killed."""

    def __init__(self, proc: Path = _PROC, cgroups: Path = _CGROUPS, log: Path = _LOG) -> None:
        self._proc, self._log = proc, log
        whole = (cgroups, cgroups / "memory")  # the machine's
        self._groups = [
            group for group in memory_groups(proc, cgroups) if group not in whole and group.is_dir()
        ]
        self._own = job_part(self._groups)
        self._began = time.monotonic()
        self._kills_of_group, self._kills_of_machine = self._count()

    def blamed_for(self, end: Failure) -> Failure:
        """The end as it was reported, or an end for want of memory where the kernel says so."""
        if end.signal != SIGKILL:
            return end
        words = self._words(end.pid)
        return end if words is None else replace(end, out_of_memory=words)

    def _words(self, pid: int | None) -> str | None:
        of_group, of_machine = (
            now - before
            for now, before in zip(
                self._count(), (self._kills_of_group, self._kills_of_machine), strict=True
            )
        )
        kills = self._logged()
        ours = [kill for kill in kills or [] if kill.pid == pid]
        if ours:
            return (
                f"the kernel's out-of-memory killer ended process {ours[-1].pid} "
                f"({ours[-1].name}){_size(ours[-1].resident_bytes)}"
            )
        if of_group > 0:
            return (
                f"the kernel's out-of-memory killer ended {of_group} of the job's "
                f"processes{self._limit()}"
            )
        # A log that can be read and does not name our process acquits; other nodes may share this
        # machine.
        if kills is None and of_machine > 0:
            return (
                f"the kernel's out-of-memory killer ended {of_machine} "
                f"process{'es' if of_machine > 1 else ''} on this node meanwhile"
            )
        return None

    def _count(self) -> tuple[int, int]:
        """Kills so far: in the job's own memory cgroups, and on the whole machine."""
        of_groups = [
            _counter(group / name)
            for group in self._own
            for name in ("memory.events", "memory.oom_control")
        ]
        return max(of_groups, default=0), _counter(self._proc / "vmstat")

    def _limit(self) -> str:
        for group in self._groups:
            for name in ("memory.max", "memory.limit_in_bytes"):
                with contextlib.suppress(OSError, ValueError):
                    limit = int((group / name).read_text())
                    if limit < 1 << 60:  # v1's word for no limit
                        return f"; their cgroup may use {_gigabytes(limit)}"
        return ""

    def _logged(self) -> list[Kill] | None:
        """The kernel's kills since we began; None where its log may not be read."""
        try:
            descriptor = os.open(self._log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return [
                kill
                for record in _records(descriptor)
                if (kill := _kill_in(record, self._began - 1.0)) is not None
            ]
        finally:
            os.close(descriptor)


def _counter(path: Path) -> int:
    try:
        found = _COUNTER.search(path.read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _records(descriptor: int) -> Iterator[str]:
    """What /dev/kmsg holds, one record a read; EPIPE says that older ones were overwritten
    meanwhile.
    """
    while True:
        try:
            record = os.read(descriptor, 8192)
        except BrokenPipeError:
            continue
        except OSError:
            return
        if not record:
            return
        yield record.decode(errors="replace")


def _kill_in(record: str, since: float) -> Kill | None:
    """`priority,number,microseconds since boot,flags;text`."""
    head, _, text = record.partition(";")
    found = _KILLED.search(text)
    fields = head.split(",")
    if found is None or len(fields) < 3 or not fields[2].isdigit() or int(fields[2]) / 1e6 < since:
        return None
    return Kill(int(found[1]), found[2], int(found[3]) * 1024 if found[3] else None)


def _size(resident: int | None) -> str:
    return f", which had {_gigabytes(resident)} in memory" if resident else ""


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
