"""An attempt that is submitted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from trainyard.domain.records import Attempt, Cluster, Run, TimelineEntry
from trainyard.domain.words import listed
from trainyard.ports import Ports
from trainyard_contracts.commands import Submitted


def save_submission(
    ports: Ports,
    run: Run,
    attempt: Attempt,
    cluster: Cluster,
    answer: Submitted,
    asked_at: datetime,
) -> dict[str, Any]:
    """Save the job's number, and note the submission at the time when we asked for it.

    Slurm may start the job before the answer is here; the timeline shows the cause first.
    """
    now, job_id, scheduler = ports.clock.now(), answer.job_id, cluster.spec.scheduler
    ports.runs.note(run.id, _submission_line(attempt, scheduler, answer, asked_at))
    submitted = attempt.changed(submitted_at=now, job_id=job_id)
    # A run that recovers keeps the reason why it does.
    queued = f"Job {job_id} is in {scheduler}'s queue and starts when its nodes are free."
    reason = queued if run.status == "Submitting" else run.reason
    changes = {
        "image_digest": run.image_digest or answer.image,
        "attempts": [*run.attempts[:-1], submitted],
        "filesystem": cluster.filesystem,
        "reason": reason,
    }
    ports.runs.put(run.changed(**changes))
    ports.clusters.touch(run.cluster_name, used_at=now)
    return {"submitted": True, "jobId": job_id}


def _submission_line(
    attempt: Attempt, scheduler: str, answer: Submitted, asked_at: datetime
) -> TimelineEntry:
    changed = (
        f" The program has changed of its files: {answer.changed[:500]}; they stay as they are."
        if answer.changed
        else ""
    )
    brought = f" It reads {answer.inputs[:1000]}." if answer.inputs else ""
    without = f" without {listed(attempt.exclude)}" if attempt.exclude else ""
    return TimelineEntry(
        id=f"status-submitted-{attempt.number}",
        at=asked_at,
        kind="status",
        type="AttemptSubmitted",
        attempt=attempt.number,
        data={"jobId": answer.job_id},
        message=f"Attempt {attempt.number} is submitted to {scheduler} as job {answer.job_id}"
        f"{without}.{changed}{brought}",
    )
