"""The problems that a run or a cluster can end with: a closed code each, and what to do next."""

from __future__ import annotations

from trainyard.domain.records import Problem

TEXTS: dict[str, tuple[str, str]] = {
    "cluster-failed": (
        "The cluster could not be made or kept",
        "Read AWS's reason in the detail, correct the cluster's specification, submit again.",
    ),
    "lifecycle-failed": (
        "A lifecycle script failed on a node",
        "Read the tail of its log in the detail, correct what it says, submit again.",
    ),
    "cluster-deadline": (
        "The cluster was not ready in time",
        "Look at the lifecycle log; raise limits.clusterDeadlineSeconds if it only needs longer.",
    ),
    "cluster-not-found": (
        "There is no such cluster",
        "Name an existing cluster, or give cluster.spec.",
    ),
    "no-capacity": (
        "AWS has no capacity for these instances now",
        "Try again later, or ask for another instance type, zone or a training plan.",
    ),
    "backend-rejected": (
        "AWS refused to create the cluster",
        "Read AWS's reason in the detail, correct the specification, submit again.",
    ),
    "python-error": (
        "The program failed",
        "Correct the program, then submit again or resume the run.",
    ),
    "same-error": (
        "The same error came again at the same place",
        "Correct the program or its data, then submit again or resume the run.",
    ),
    "out-of-memory": (
        "The job needs more memory than its nodes have",
        "Lower the batch size or the sequence length, processesPerNode or the data loader's "
        "workers; or shard the model (fsdp, ZeRO, tensor "
        "parallel) over more nodes, or take an instance type with more memory. "
        "Then submit again or resume the run.",
    ),
    "attempts-exhausted": (
        "Every attempt was used",
        "Look at the incidents; resume the run for a new budget, or raise recovery.maxAttempts.",
    ),
    "nodes-exhausted": (
        "No node became free in time",
        "Replace the lost nodes, then resume the run; add spares to go on in seconds next time.",
    ),
    "duration-exceeded": (
        "The run reached its longest duration",
        "Resume it for another period, or raise limits.maxDurationSeconds.",
    ),
    "export-failed": (
        "The export could not be verified",
        "The cluster is kept. Correct the reason in the detail, then POST /v1/runs/{id}:export.",
    ),
    "submit-failed": (
        "The job could not be submitted to Slurm",
        "Look at the controller's agent log, then resume the run.",
    ),
    "cancelled": ("The run was cancelled", "Resume it to go on from its newest checkpoint."),
    "internal": (
        "A step of the run failed inside Trainyard",
        "Look at the execution of the run's state machine, then resume the run.",
    ),
}


_LOG = " End of the lifecycle log:\n"


def with_log(found: Problem, tail: str) -> Problem:
    """Add the end of the lifecycle log to the problem, since a person cannot reach the node."""
    text = f"{_LOG}{tail}" if tail else " The lifecycle log is empty."
    return found.changed(detail=f"{found.detail.rstrip('.')}.{text}")


def brief(found: Problem) -> str:
    """The detail in one line: of a log the line that names the failure, else its last line."""
    reason, _, log = found.detail.partition(_LOG)
    lines = log.splitlines()
    shown = next((line for line in reversed(lines) if "FAILED" in line), lines[-1] if lines else "")
    return f"{reason} The lifecycle log says: {shown.strip()[:400]}" if shown else reason


def problem(code: str, detail: str) -> Problem:
    """The problem of a code; an unknown code is a bug and raises KeyError."""
    title, next_step = TEXTS[code]
    return Problem(code=code, title=title, detail=detail, next_step=next_step)
