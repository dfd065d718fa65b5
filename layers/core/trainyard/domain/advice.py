"""What to do next about a run that ended badly, with the run's own names and its copy in S3."""

from __future__ import annotations

import re
from datetime import datetime

from trainyard.domain.records import Problem, Run
from trainyard.domain.words import duration
from trainyard_contracts.files import SyncLatest

#: The problems of a run whose cluster is away: another cluster can go on with it.
_WITHOUT_CLUSTER = frozenset({"cluster-failed", "cluster-not-found"})
#: Never alone: as in 'trainyard run resume RUN', and in the path of the same request.
_NAMES = re.compile(r"\bRUN\b|\{id\}")


def advised(run: Run, in_s3: str = "") -> Problem | None:
    """The run's problem; its next step can be copied as it stands.

    `in_s3`: what was copied there while it trained, in the words of `copied`.
    """
    found = run.problem
    if found is None:
        return None
    text = _NAMES.sub(run.id, found.next_step).replace("CLUSTER", run.cluster_name)
    if found.code == "cancelled" and not submitted(run):
        text = f"Nothing was trained. To start it after all: trainyard run resume {run.id}."
    if found.code in _WITHOUT_CLUSTER and in_s3:
        text = f"{_from_the_copy(run, in_s3)} What AWS said is in the detail."
    return found.changed(next_step=text)


def copied(sync: SyncLatest, now: datetime) -> str:
    """'step 40, copied 12 minutes ago'"""
    step = "no whole checkpoint" if sync.last_step is None else f"step {sync.last_step}"
    return f"{step}, copied {duration(max(0.0, (now - sync.at).total_seconds()))} ago"


def submitted(run: Run) -> bool:
    """Whether a job of it was ever given to Slurm."""
    return any(attempt.submitted_at or attempt.started_at for attempt in run.attempts)


def another_cluster(run: Run) -> str:
    """How a cluster comes to be that goes on with a run on an existing one."""
    return (
        f"create a cluster named '{run.cluster_name}' (trainyard cluster create FILE) on any "
        f"filesystem, wait until it is Ready, then: trainyard run resume {run.id}"
    )


def _from_the_copy(run: Run, in_s3: str) -> str:
    resume, delete = (
        f"trainyard run resume {run.id}",
        f"trainyard cluster delete {run.cluster_name}",
    )
    there = f"{resume} goes on from what is in S3 ({in_s3})"
    if not run.owns_cluster:
        return (
            f"{there}. First delete what is left of the cluster ({delete} --force), then "
            f"{another_cluster(run)}."
        )
    return (
        f"{there}, or from the run's filesystem if that is still there. First delete what is left "
        f"of the cluster: {delete} --force. To go on on another filesystem: {resume} --filesystem "
        "DNSNAME/MOUNTNAME."
    )
