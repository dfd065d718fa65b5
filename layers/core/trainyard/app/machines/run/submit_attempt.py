"""Submit the planned attempt: its bundle to S3, then one command to the controller's agent."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from trainyard.app.facts.situation import still
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.agent_answers import Fetching, agent_answer
from trainyard.app.machines.run.bring_outputs import bring_outputs
from trainyard.app.machines.run.fetch_git import fetch_git
from trainyard.app.machines.run.put_off import (
    delayed,
    fetching,
    may_take_long,
    refused,
    without_nodes,
)
from trainyard.app.machines.run.submitted import save_submission
from trainyard.domain import names, recipes
from trainyard.domain.book import Book
from trainyard.domain.errors import AgentTooOld, JobRefused, RetryableError
from trainyard.domain.records import Attempt, Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts.commands import UNKNOWN_OPTION, Submit, Submitted
from trainyard_contracts.events import AttemptStarted

#: The agent kills leftovers, raises the fence and waits for sbatch within this.
SUBMIT_SECONDS = 60.0
#: Options that older agents refuse, and what of a spec needs them.
_NEWER = {
    "code": "job.workdir",
    "needs": "inputs, checkpoint.watch, checkpoint.startFrom, progress, job.image, "
    "export.everySeconds, job.hyperparameters",
}


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
    fetched = fetch_git(ports, run, attempt, cluster)
    run_with_outputs = bring_outputs(ports, fetched) if fetched is not None else None
    if run_with_outputs is None:
        return {"submitted": False}
    run = run_with_outputs
    command = _write_bundle(ports, run, attempt, cluster)
    asked_at = ports.clock.now()
    try:
        answer = _ask(ports, cluster, command)
    except AgentTooOld as error:
        return refused(ports, run, "agent-too-old", error.detail)
    except JobRefused as error:
        if error.problem == "no-capacity" and cluster.tries:
            return without_nodes(ports, run, attempt, error.detail)
        return refused(ports, run, error.problem, error.detail)
    except RetryableError as error:
        known = _started(ports, run, attempt)
        if known is None:
            return _unanswered(ports, run, attempt, cluster, error)
        answer = known
    return save_submission(ports, run, attempt, cluster, answer, asked_at)


def _write_bundle(ports: Ports, run: Run, attempt: Attempt, cluster: Cluster) -> Submit:
    """Write the bundle to S3. Returns the command that names it."""
    key = run.bundle_key(attempt.number)
    body = recipes.job_bundle(run, attempt, cluster.spec).model_dump_json(by_alias=True).encode()
    ports.blobs.put(key, body)
    bundle = names.s3_uri(ports.blobs.bucket, key)
    digest, code = hashlib.sha256(body).hexdigest(), run.code.tree if run.code else ""
    return Submit(run.id, attempt.number, bundle, digest, code, recipes.needs(run))


def _started(ports: Ports, run: Run, attempt: Attempt) -> Submitted | None:
    """A job that started was submitted, whatever became of the answer."""
    started = Book(ports.runs.facts(run.id, attempt.number)).first(AttemptStarted)
    return Submitted(started.job_id) if started is not None else None


def _unanswered(
    ports: Ports, run: Run, attempt: Attempt, cluster: Cluster, error: RetryableError
) -> dict[str, Any]:
    """Raises the error where the submission is to be repeated at once."""
    if not still(ports, run.id, "submit"):
        return {"submitted": False}
    if isinstance(error, Fetching) and may_take_long(run, cluster):
        return fetching(ports, run, attempt, error)
    delayed(ports, run, attempt, error)
    raise error


def _ask(ports: Ports, cluster: Cluster, command: Submit) -> Submitted:
    """Send the agent the command, with the bundle's hash.

    By the hash the agent notices a bundle that was replaced between our write and its read.
    """
    result = ports.backend(cluster).run(cluster, command.argv(), timeout_seconds=SUBMIT_SECONDS)
    if result.exit_code != 0 and f"--sha256 {UNKNOWN_OPTION}" in result.stdout:
        result = ports.backend(cluster).run(
            cluster, replace(command, sha256="").argv(), timeout_seconds=SUBMIT_SECONDS
        )
    for option, field in _NEWER.items():
        # An agent that knows the option, and not all that it may name, says what it must be.
        refusals = (f"--{option} {UNKNOWN_OPTION}", f"--{option} must be")
        if result.exit_code != 0 and any(words in result.stdout for words in refusals):
            raise AgentTooOld(
                f"{field}: the agent of cluster '{cluster.name}' is from a version of Trainyard "
                "that does not know this."
            )
    return Submitted.of(agent_answer(result, "submit"))
