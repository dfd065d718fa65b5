"""Submit the planned attempt: its bundle to S3, then one command to the controller's agent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from trainyard.app.facts.situation import still
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.bring_outputs import bring_outputs
from trainyard.app.machines.run.delays import tell_delay
from trainyard.app.machines.run.fetch_git import fetch_git
from trainyard.app.machines.run.keep_code import forget_copies, keep_code
from trainyard.domain import names, recipes
from trainyard.domain.book import Book
from trainyard.domain.errors import AgentTooOld, CommandFailed, JobRefused, RetryableError
from trainyard.domain.job_ends import job_ended
from trainyard.domain.kinds import sentence
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt, Cluster, Run, TimelineEntry
from trainyard.domain.runs import stopped
from trainyard.domain.words import listed
from trainyard.outside.commands import CommandResult
from trainyard.ports import Ports
from trainyard_contracts.commands import INPUT_REFUSED, UNKNOWN_OPTION, Submit, Submitted, answer_of
from trainyard_contracts.events import AttemptStarted

#: The agent kills leftovers, raises the fence and waits for sbatch within this.
SUBMIT_SECONDS = 60.0
#: Answers of the agent that a repetition does not change.
FINAL_ERRORS = frozenset(
    {
        "bundle-refused",
        "invalid-request",
        "fenced",
        "conflict",
        "secret-refused",
        "restore-refused",
    }
)
#: Those after which no other attempt makes sense; each is the code of the run's problem.
_REFUSALS = frozenset(
    {
        "image-needs-pyxis",
        "image-refused",
        INPUT_REFUSED,
        "backend-rejected",
        "no-capacity",
        "submit-failed",
    }
)


class BundleChanged(RetryableError):
    """The agent read another bundle than we wrote. A repetition writes ours again."""


class CodeChanged(RetryableError):
    """The agent read other code than we copied. It is copied again before the repetition."""


class Fetching(RetryableError):
    """The agent still fetches the code, or a job still ends. A repetition waits for it."""


#: The agent's own sentence says what a person has to correct.
_NAMES_A_FIELD = re.compile(r"(job|inputs|checkpoint|export)\b[\w.]*: ")
#: By the agent's answer, what the repetition is for; of any other error it has no answer.
_REPEATED: Mapping[str, type[RetryableError]] = {
    "bundle-changed": BundleChanged,
    "code-changed": CodeChanged,
    "fetching": Fetching,
}
#: Options that older agents refuse, and what of a spec needs them.
_NEWER = {
    "code": "job.workdir",
    "needs": "inputs, checkpoint.watch, checkpoint.startFrom, progress, job.image, "
    "export.everySeconds, job.hyperparameters",
}
_STATES: Mapping[type[RetryableError], str] = {
    BundleChanged: "was refused",
    CodeChanged: "was refused",
    Fetching: "waits",
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
        return _refused(ports, run, "agent-too-old", error.detail)
    except JobRefused as error:
        if error.problem == "no-capacity" and cluster.tries:
            return _without_nodes(ports, run, attempt, error.detail)
        return _refused(ports, run, error.problem, error.detail)
    except RetryableError as error:
        known = _started(ports, run, attempt)
        if known is None:
            return _unanswered(ports, run, attempt, cluster, error)
        answer = known
    return _save(ports, run, attempt, cluster, answer, asked_at)


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
    if isinstance(error, Fetching) and _may_take_long(run, cluster):
        return _fetching(ports, run, attempt, error)
    _delayed(ports, run, attempt, error)
    raise error


def _without_nodes(ports: Ports, run: Run, attempt: Attempt, detail: str) -> dict[str, Any]:
    """AWS made no job for want of nodes; what follows, the decision says."""
    now = ports.clock.now()
    ended = job_ended("", run.id, attempt.number, "no-capacity", detail, now)
    assert ended is not None
    fact = ended.changed(id=f"no-job-{run.id}-{attempt.number}")
    ports.runs.record(run.id, fact, sentence(fact))
    asked = attempt.changed(submitted_at=now)
    ports.runs.put(run.changed(attempts=[*run.attempts[:-1], asked]))
    return {"submitted": False}


def _may_take_long(run: Run, cluster: Cluster) -> bool:
    """Data of the run, or the end of its last job, which is stopped first."""
    return bool(run.spec.inputs) or cluster.spec.nodes_come_with_jobs


def _delayed(ports: Ports, run: Run, attempt: Attempt, error: RetryableError) -> None:
    """Say why, and put right what can be put right from here."""
    state = _STATES.get(type(error), "has no answer yet")
    key = f"submit-{attempt.number}{f'-{type(error).__name__}' if type(error) in _STATES else ''}"
    tell_delay(ports, run.id, key, f"The submission of attempt {attempt.number} {state}", error)
    if isinstance(error, CodeChanged):
        keep_code(ports, forget_copies(run))


def _fetching(ports: Ports, run: Run, attempt: Attempt, error: Fetching) -> dict[str, Any]:
    """Data may take hours, and the end of a job minutes. The decision sends us here again, and
    knows the run's limits.

    There is a line of progress after 1, 2, 4, 8 ... minutes: few, however long it takes.
    """
    now = ports.clock.now()
    since = attempt.fetching_since
    if since is None:
        since, waiting = now, attempt.changed(fetching_since=now)
        ports.runs.put(run.changed(attempts=[*run.attempts[:-1], waiting]))
    doublings = int((now - since).total_seconds() // 60).bit_length()
    key = f"submit-{attempt.number}-fetching-{doublings}"
    tell_delay(ports, run.id, key, f"The submission of attempt {attempt.number} waits", error)
    return {"submitted": False}


def _refused(ports: Ports, run: Run, code: str, detail: str) -> dict[str, Any]:
    """End the run: no other attempt could do better."""
    now = ports.clock.now()
    line = TimelineEntry(
        id=f"status-{code}-{run.life}", at=now, kind="status", type="Stopped", message=detail
    )
    ports.runs.put(stopped(run, now, "failed", detail, problem(code, detail)), [line])
    return {"submitted": False}


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
    if repeated := _REPEATED.get(str(answer.get("error"))):
        raise repeated(message)
    if (code := str(answer.get("error"))) in _REFUSALS:
        raise JobRefused(code, reason)
    if code in FINAL_ERRORS and _NAMES_A_FIELD.match(reason):
        raise JobRefused("submit-failed", reason)
    raise CommandFailed(message) if answer.get("error") in FINAL_ERRORS else RetryableError(message)


def _save(
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
