"""The problems that a run or a cluster can end with: a closed code each, and what to do next."""

from __future__ import annotations

from trainyard.domain.records import Problem

#: A run's program and spec never change: what is to be corrected needs a new run.
_ANEW = (
    "start it as a new run: trainyard run submit FILE, or trainyard run rerun RUN --set "
    "FIELD=VALUE, which changes fields of the spec."
)
TEXTS: dict[str, tuple[str, str]] = {
    "cluster-failed": (
        "The cluster could not be made or kept",
        "Read the reason in the detail, correct the cluster's specification or what else it names, "
        "submit again.",
    ),
    "lifecycle-failed": (
        "A lifecycle script failed on a node",
        "Read the tail of its log in the detail, correct what it says, submit again.",
    ),
    "cluster-deadline": (
        "The cluster was not ready in time",
        "Look at the lifecycle log; raise limits.clusterDeadlineSeconds if it only needs longer.",
    ),
    "adoption-failed": (
        "The cluster could not be adopted, and is left as it was",
        "Read the reason in the detail, correct it, and adopt the cluster again. What the role of "
        "its nodes must allow: trainyard cluster adopt NAME --dryrun.",
    ),
    "filesystem-failed": (
        "The filesystem could not be made or kept",
        "Read the reason in the detail; delete it (trainyard filesystem delete NAME), correct the "
        "specification and create it again.",
    ),
    "archive-failed": (
        "The cluster is kept, for its filesystem could not be archived",
        "Read the reason in the detail, correct it, and delete the cluster again: trainyard "
        "cluster delete NAME. With --force what its filesystem holds is given up.",
    ),
    "filesystem-export-failed": (
        "The filesystem's export is not complete",
        "Read the reason and the report that the detail names, correct it, and export again: "
        "trainyard filesystem export NAME.",
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
        "AWS refused to create the cluster or the job",
        "Read AWS's reason in the detail, correct the specification, submit again.",
    ),
    "python-error": ("The program failed", f"Correct the program, then {_ANEW}"),
    "lasting-error": (
        "The program is wrong, or every node lacks what it needs",
        "Correct what the error names: the program, its arguments, a file, or what it imports "
        f"(job.pythonEnvironment installs packages). Then {_ANEW}",
    ),
    "same-error": (
        "The same error came again at the same place",
        "If it is in the program or its data, correct it, then "
        f"{_ANEW} If what was around the program is mended, go on with trainyard run resume RUN.",
    ),
    "out-of-memory": (
        "The job needs more memory than its nodes have",
        "Lower the batch size or the sequence length, processesPerNode or the data loader's "
        "workers; or shard the model (fsdp, ZeRO, tensor parallel) over more nodes, or take an "
        f"instance type with more memory. Then {_ANEW}",
    ),
    "device-out-of-memory": (
        "The job needs more memory than its accelerators have",
        "Lower the batch size of a process or the sequence length (accumulating gradients keeps "
        "the whole batch), keep fewer activations, or shard the model (fsdp, ZeRO, tensor "
        "parallel) over more accelerators. Another node of this instance type has no more. Then "
        f"{_ANEW}",
    ),
    "attempts-exhausted": (
        "Every attempt was used",
        "Look at the incidents with trainyard run events RUN. For as many attempts again: "
        "trainyard run resume RUN.",
    ),
    "nodes-exhausted": (
        "No node became free in time",
        "Replace the lost nodes with trainyard node replace CLUSTER INSTANCE, then trainyard run "
        "resume RUN; add spares to go on in seconds next time.",
    ),
    "duration-exceeded": (
        "The run reached its longest duration",
        "Let it go on for the same time again with trainyard run resume RUN, or raise "
        f"limits.maxDurationSeconds: {_ANEW}",
    ),
    "budget-exhausted": (
        "The run's budget is used up, or one that it shares",
        "What it has is exported. Let it go on with trainyard run resume RUN: for the same sum "
        "again, or, if it shares the budget, when that has a new period or an admin has raised it "
        f"(trainyard budget set BUDGET --max-usd USD). Or raise budget.maxUsd: {_ANEW}",
    ),
    "job-time-exceeded": (
        "The training job reached its own longest duration",
        "Let it go on in another job with trainyard run resume RUN, or raise "
        f"cluster.spec.maxRuntimeSeconds (of spot, maxWaitSeconds, too): {_ANEW}",
    ),
    "export-failed": (
        "The export could not be verified",
        "The cluster is kept. Correct the reason in the detail, then trainyard run export RUN "
        "(POST /v1/runs/{id}:export).",
    ),
    "parent-failed": (
        "A run that it was to follow did not succeed",
        "Look at that run, which the detail names: trainyard run show PARENT. When it has "
        "succeeded after all (trainyard run resume PARENT), trainyard run resume RUN begins this "
        "one; a run that follows whatever becomes of the others has afterPolicy 'end'.",
    ),
    "approval-denied": (
        "People did not approve it",
        "Read the reason and talk to whom it names. trainyard run resume RUN asks for another "
        "approval; a smaller run may need none (limits.maxDurationSeconds, budget.maxUsd).",
    ),
    "approval-expired": (
        "Nobody approved it in time",
        "trainyard run resume RUN asks once more. Tell those who decide before: trainyard "
        "approval ls.",
    ),
    "submit-failed": (
        "The job could not be submitted",
        "Correct the reason in the detail, then trainyard run resume RUN. What the nodes said when "
        "they were made: trainyard run logs --kind lifecycle RUN.",
    ),
    "cancelled": (
        "The run was cancelled",
        "To go on, from its newest checkpoint if it has one: trainyard run resume RUN.",
    ),
    "code-expired": (
        "The upload of the run's code is gone",
        "Upload the directory again and submit the run again: the CLI does both.",
    ),
    "git-refused": (
        "The run's code cannot be fetched with git",
        "Correct what the detail names: job.git, the repository, or the secret that opens it. Then "
        f"{_ANEW}",
    ),
    "agent-too-old": (
        "The cluster's agent is older than a feature that the run needs",
        "Submit the run with cluster.spec, so that a new cluster is made for it, or delete the "
        "cluster and create it again; a cluster keeps the agent that it was made with.",
    ),
    "image-needs-pyxis": (
        "The cluster runs no containers",
        "job.image needs Enroot and Pyxis on the nodes, registered with their Slurm. "
        "On AWS submit the run with cluster.spec, so that a new cluster is made for it. The local "
        "cloud has none: trainyard run rerun RUN --set job.image=null.",
    ),
    "image-refused": (
        "The job's image cannot be used",
        f"Correct what the detail names: job.image, or who may pull it. Then {_ANEW}",
    ),
    "input-refused": (
        "The program cannot be given what it reads",
        "Correct what the detail names: the bucket, its objects, who may read them, or the path. "
        "Then trainyard run resume RUN, or with another spec: "
        f"{_ANEW}",
    ),
    "internal": (
        "A step of the run failed inside Trainyard",
        "Read the timeline with trainyard run events RUN, then try trainyard run resume RUN.",
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
