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
WORK = "work"

# In a checkpoint's directory.
CHECKPOINT_MANIFEST = "manifest.json"

# In an attempt's directory.
HOSTS = "hosts"
JOB = "job.json"
PROGRESS = "progress.json"
METRICS = "metrics.jsonl"


def launch_report(node: str) -> str:
    """In an attempt's directory: how the launcher of one node began and ended."""
    return f"launch-{node}.json"
