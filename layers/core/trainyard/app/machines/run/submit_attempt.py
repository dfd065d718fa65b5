"""Submit the planned attempt: its bundle to S3, then one command to the controller's agent."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Any

from trainyard.app.facts.situation import still
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.delays import tell_delay
from trainyard.domain import names, recipes
from trainyard.domain.errors import CommandFailed, RetryableError
from trainyard.domain.facts import Book
from trainyard.domain.records import Attempt, Cluster, Run, TimelineEntry
from trainyard.domain.words import listed
from trainyard.ports import CommandResult, Ports
from trainyard_contracts.commands import UNKNOWN_OPTION, Submit, Submitted, answer_of
from trainyard_contracts.events import AttemptStarted

#: The agent kills leftovers, raises the fence and waits for sbatch within this.
SUBMIT_SECONDS = 60.0
#: Answers of the agent that a repetition does not change.
FINAL_ERRORS = frozenset({"bundle-refused", "invalid-request", "fenced", "conflict"})


class BundleChanged(RetryableError):
    """The agent read another bundle than we wrote. A repetition writes ours again."""


def submit_attempt(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Submit the newest attempt if it still is to be submitted.

    The agent gives the same job for the same attempt.
    """
    run = ports.runs.get(given.run_id)
    attempt = run.attempt
    if (
        run.outcome is not None
        or attempt is None
        or attempt.submitted_at is not None
        or attempt.ended_at is not None
    ):
        return {"submitted": False}
    cluster = ports.clusters.get(run.cluster_name)
    key = run.bundle_key(attempt.number)
    body = recipes.job_bundle(run, attempt, cluster.spec).model_dump_json(by_alias=True).encode()
    ports.blobs.put(key, body)
    bundle = names.s3_uri(ports.blobs.bucket, key)
    command = Submit(run.id, attempt.number, bundle, hashlib.sha256(body).hexdigest())
    asked_at = ports.clock.now()
    try:
        answer = _ask(ports, cluster, command)
    except RetryableError as error:
        # A job that started was submitted, whatever became of the answer.
        started = Book(ports.runs.facts(run.id, attempt.number)).first(AttemptStarted)
        if started is not None:
            return _save(ports, run, attempt, cluster.filesystem, started.job_id, asked_at)
        if still(ports, run.id, "submit"):
            state = "was refused" if isinstance(error, BundleChanged) else "has no answer yet"
            key = f"submit-{attempt.number}{'-changed' if isinstance(error, BundleChanged) else ''}"
            tell_delay(
                ports, run.id, key, f"The submission of attempt {attempt.number} {state}", error
            )
            raise
        return {"submitted": False}
    return _save(ports, run, attempt, cluster.filesystem, answer.job_id, asked_at)


def _ask(ports: Ports, cluster: Cluster, command: Submit) -> Submitted:
    """Send the agent the command, with the bundle's hash.

    By the hash the agent notices a bundle that was replaced between our write and its read.
    """
    result = ports.commands.run(cluster, command.argv(), timeout_seconds=SUBMIT_SECONDS)
    if result.exit_code != 0 and f"--sha256 {UNKNOWN_OPTION}" in result.stdout:
        result = ports.commands.run(
            cluster, replace(command, sha256="").argv(), timeout_seconds=SUBMIT_SECONDS
        )
    return Submitted.of(agent_answer(result, "submit"))


def agent_answer(result: CommandResult, command: str) -> dict[str, Any]:
    """The agent's JSON answer.

    Raises RetryableError, or CommandFailed when a repetition would not help.
    """
    answer = answer_of(result.stdout)
    if answer is None:
        if result.exit_code == 0:  # nobody knows what was done
            raise RetryableError(
                f"trainyard-agent {command}: its answer is not whole: {result.stdout[:200]!r}"
            )
        answer = {}
    if result.exit_code == 0:
        return answer
    reason = str(
        answer.get("message") or result.stderr.strip()[-500:] or f"exit code {result.exit_code}"
    )
    message = f"trainyard-agent {command}: {reason}"
    if answer.get("error") == "bundle-changed":
        raise BundleChanged(message)
    raise CommandFailed(message) if answer.get("error") in FINAL_ERRORS else RetryableError(message)


def _save(
    ports: Ports, run: Run, attempt: Attempt, filesystem: str, job_id: str, asked_at: datetime
) -> dict[str, Any]:
    """Save the job's number, and note the submission at the time when we asked for it.

    Slurm may start the job before the answer is here; the timeline shows the cause first.
    """
    now = ports.clock.now()
    without = f" without {listed(attempt.exclude)}" if attempt.exclude else ""
    ports.runs.note(
        run.id,
        TimelineEntry(
            id=f"status-submitted-{attempt.number}",
            at=asked_at,
            kind="status",
            type="AttemptSubmitted",
            attempt=attempt.number,
            data={"jobId": job_id},
            message=f"Attempt {attempt.number} is submitted to Slurm as job {job_id}{without}.",
        ),
    )
    submitted = attempt.changed(submitted_at=now, job_id=job_id)
    # A run that recovers keeps the reason why it does.
    queued = f"Job {job_id} is in Slurm's queue and starts when its nodes are free."
    reason = queued if run.status == "Submitting" else run.reason
    changes = {
        "attempts": [*run.attempts[:-1], submitted],
        "filesystem": filesystem,
        "reason": reason,
    }
    ports.runs.put(run.changed(**changes))
    ports.clusters.touch(run.cluster_name, used_at=now)
    return {"submitted": True, "jobId": job_id}
