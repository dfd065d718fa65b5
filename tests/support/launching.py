"""An allocation and a job, as launchers see them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainyard_trainers.launch.allocation import Allocation, Job, Node

EVIL = "; rm -rf / #$(reboot)`id` 'a' \"b\"\n#SBATCH --uid=0"
NODES = ("ip-10-0-0-3", "ip-10-0-0-4")


def allocation(
    directory: Path,
    *,
    rank: int = 0,
    local: bool = False,
    nodes: Sequence[str] = NODES,
    **fields: Any,
) -> Allocation:
    """A node's view of attempt 3 of a run on two nodes with two processes each."""
    attempt_dir = directory / "trainyard/runs/run-x/attempts/3"
    attempt_dir.mkdir(parents=True, exist_ok=True)
    document = {
        "runId": "run-x",
        "attempt": 3,
        "program": ["train.py"],
        "arguments": ["--text", EVIL],
        "processesPerNode": 2,
        "recipe": "torchrun",
        **fields,
    }
    hosts = {name: f"{'127' if local else '10'}.0.0.{name[-1]}" for name in nodes}
    return Allocation(
        Job(attempt_dir, document), Node(nodes[rank], rank, tuple(nodes), "17"), hosts
    )
