"""Names of files that the agent or the control plane knows, too; they are not imported from there,
because an environment of jobs need not have our contracts. `tests/contract/test_places.py` compares
them with `trainyard_contracts.places`.
"""

from __future__ import annotations

# In a run's directory.
ATTEMPTS = "attempts"
BEST = "best.json"
CHECKPOINTS = "checkpoints"
FENCE, FENCE_LOCK = "fence", "fence.lock"
FINAL = "final"
OUTPUT = "output"
SCRIPT_MODEL, SCRIPT_DATA = "output/script-mode/model", "output/script-mode/data"
WORK = "work"

# In a checkpoint's directory.
CHECKPOINT_MANIFEST = "manifest.json"

# In an attempt's directory.
HOSTS = "hosts"
JOB = "job.json"
PROGRESS = "progress.json"
STEPS, METRICS = "steps.jsonl", "metrics.jsonl"
RANK_LOGS = "rank-logs"
RANK_LOG_TIMES = "times"


def launch_report(node: str) -> str:
    """In an attempt's directory: how the launcher of one node began and ended."""
    return f"launch-{node}.json"


def rank_logs(node: str) -> str:
    """In an attempt's directory: what the ranks of one node print, a file for each."""
    return f"{RANK_LOGS}/{node}"


def rank_log(rank: int | None) -> str:
    """In such a directory: of one rank, or of a program that runs once on the node."""
    return "program.log" if rank is None else f"rank-{rank}.log"
