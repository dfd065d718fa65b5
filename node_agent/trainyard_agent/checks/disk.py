"""The node's own disks: a full one stops logs, checkpoints to local disk, and Slurm's spool."""

from __future__ import annotations

import os
from dataclasses import dataclass

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 30.0, 2
WARNING_PERCENT, ERROR_PERCENT = 90.0, 97.0


@dataclass(frozen=True)
class Reading:
    """(path, percent of bytes used, percent of inodes used, writable)."""

    disks: tuple[tuple[str, float, float, bool], ...]


def read(node: Node) -> Reading:
    found, seen = [], set()
    for path in ("/", "/opt/dlami/nvme", "/opt/sagemaker", node.config.state_dir):
        if not os.path.isdir(path) or os.stat(path).st_dev in seen:
            continue
        seen.add(os.stat(path).st_dev)
        stat = os.statvfs(path)
        used = 100.0 * (1 - stat.f_bavail / stat.f_blocks) if stat.f_blocks else 0.0
        inodes = 100.0 * (1 - stat.f_favail / stat.f_files) if stat.f_files else 0.0
        found.append((path, used, inodes, not stat.f_flag & os.ST_RDONLY))
    return Reading(tuple(found))


def judge(reading: Reading) -> Verdict:
    for path, _, _, writable in reading.disks:
        if not writable:
            return Verdict("error", f"{path} became read-only")
    path, used, inodes, _ = max(reading.disks, key=lambda disk: max(disk[1], disk[2]))
    worst, what = max((used, "space"), (inodes, "inodes"))
    if worst >= WARNING_PERCENT:
        return Verdict(
            "error" if worst >= ERROR_PERCENT else "warning", f"{path}: {worst:.0f}% of {what} used"
        )
    return Verdict("healthy", f"at most {worst:.0f}% used")
