"""The memory cgroups of this process, and how much they leave it: Slurm and containers give a job
less than the machine has, and the kernel kills what takes more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
#: Version 1 writes a number near 2**63 where there is no limit.
_UNLIMITED = 1 << 60
_JOB = re.compile(r"^job_[0-9]+$")
#: Of files that were read and are kept in memory: the kernel drops them before it kills.
_CACHE = re.compile(r"^(?:total_)?(?:inactive|active)_file (\d+)$", re.MULTILINE)
_TOTALS = re.compile(r"^total_(?:inactive|active)_file (\d+)$", re.MULTILINE)


def free(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Bytes that the process may still take; None where no cgroup limits it."""
    found = [left for group in memory_groups(proc, cgroups) if (left := _left(group)) is not None]
    return min(found, default=None)


def memory_groups(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> Iterator[Path]:
    """The memory cgroup of this process and all above it, innermost first; they need not be there.

    The last is the whole machine's, or in a container perhaps its own.
    """
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = cgroups / "memory" if controllers else cgroups
        inner = Path(path.strip("/"))
        yield from (top / part for part in (inner, *inner.parents))


def job_part(groups: Sequence[Path]) -> list[Path]:
    """Of this process's groups, innermost first, those that hold its Slurm job and nothing else.

    Slurm names a job's group `job_NUMBER`. Outside a job it is the innermost alone: whose the
    others' processes are is not known.
    """
    jobs = [at for at, group in enumerate(groups) if _JOB.match(group.name)]
    return list(groups[: jobs[0] + 1 if jobs else 1])


def _left(group: Path) -> int | None:
    """Of version 2, else of version 1; None without a limit, or where there is no such group."""
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, used = _number(group / limit_name), _number(group / used_name)
        if limit is not None and used is not None and limit < _UNLIMITED:
            return max(0, limit - used + min(used, _cache(group)))
    return None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max": no limit


def _cache(group: Path) -> int:
    """Version 1 has the groups below in sums of their own, `total_`."""
    try:
        text = (group / "memory.stat").read_text()
    except OSError:
        return 0
    return sum(map(int, _TOTALS.findall(text) or _CACHE.findall(text)))
