"""Have the commit of `job.git` fetched, once: from then on it is the run's code like an upload."""

from __future__ import annotations

import hashlib

from trainyard.app.machines.run.delays import tell_delay
from trainyard.app.machines.run.keep_code import keep_code
from trainyard.domain import names, recipes
from trainyard.domain.errors import RetryableError
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt, Cluster, Code, Run, TimelineEntry
from trainyard.domain.runs import stopped
from trainyard.outside.commands import CommandResult
from trainyard.ports import Ports
from trainyard_contracts.commands import UNKNOWN_COMMAND, CheckedOut, Checkout, answer_of
from trainyard_contracts.git_code import GitSpec

#: The agent answers within this, if only that it still fetches.
CHECKOUT_SECONDS = 60.0
#: By the agent's error, the problem that the run ends with.
_ENDS = {
    "git-refused": "git-refused",
    "secret-refused": "git-refused",
    "bundle-refused": "submit-failed",
    "invalid-request": "submit-failed",
}


def fetch_git(ports: Ports, run: Run, attempt: Attempt, cluster: Cluster) -> Run | None:
    """The run with its code; None where it is over, or its commit still on the way.

    What a ref means is asked once and recorded. Raises RetryableError.
    """
    git = run.spec.job.git
    if git is None or cluster.spec.nodes_come_with_jobs:  # then each job brings it
        return run
    if run.code is None:
        result = _ask(ports, run, attempt, cluster)
        said = answer_of(result.stdout) or {}
        error = str(said.get("error") or "")
        if error == "fetching":
            _wait(ports, run, str(said.get("message")))
            return None
        if result.exit_code != 0:
            _failed(ports, run, result, error, str(said.get("message") or ""))
            return None
        run = _fetched(ports, run, git, CheckedOut.of(said))
    run = keep_code(ports, run)
    return None if run.outcome is not None else run


def _fetched(ports: Ports, run: Run, git: GitSpec, found: CheckedOut) -> Run:
    if not found.commit or not found.tree:  # nobody knows what was done
        raise RetryableError("trainyard-agent checkout: its answer is not whole")
    code = Code(
        tree=found.tree,
        files=found.files,
        bytes=found.bytes,
        commit=found.commit,
        url=git.url,
        ref=git.ref,
    )
    ref = "" if git.ref == found.commit else f" ({git.ref})"
    note = f" But {found.note}." if found.note else ""
    message = f"The run's code is commit {found.commit} of {git.url}{ref}.{note}"
    line = _line(ports, "status-commit", "CommitFetched", message)
    return ports.runs.put(run.changed(code=code), [line])


def _ask(ports: Ports, run: Run, attempt: Attempt, cluster: Cluster) -> CommandResult:
    key = run.bundle_key(attempt.number)
    body = recipes.job_bundle(run, attempt, cluster.spec).model_dump_json(by_alias=True).encode()
    ports.blobs.put(key, body)
    digest = hashlib.sha256(body).hexdigest()
    command = Checkout(run.id, attempt.number, names.s3_uri(ports.blobs.bucket, key), digest)
    try:
        return ports.backend(cluster).run(cluster, command.argv(), timeout_seconds=CHECKOUT_SECONDS)
    except RetryableError as error:
        tell_delay(ports, run.id, "git", "The code in git is not fetched yet", error)
        raise


def _wait(ports: Ports, run: Run, words: str) -> None:
    """The machine comes back at once, and the agent then waits again: a fetch may take long."""
    tell_delay(ports, run.id, "git-fetching", "The run waits", RetryableError(words))


def _failed(ports: Ports, run: Run, result: CommandResult, error: str, words: str) -> None:
    """End the run where a repetition does not help. Raises RetryableError where it may."""
    code = _ENDS.get(error)
    if UNKNOWN_COMMAND in words:
        code = "agent-too-old"
        words = "job.git: the cluster's agent is from a version of Trainyard that cannot fetch it."
    reason = words or result.stderr.strip()[-500:] or f"exit code {result.exit_code}"
    if code is None:
        delay = RetryableError(f"trainyard-agent checkout: {reason}")
        tell_delay(ports, run.id, "git", "The code in git is not fetched yet", delay)
        raise delay
    now = ports.clock.now()
    line = _line(ports, f"status-git-{run.life}", "Stopped", reason)
    ports.runs.put(stopped(run, now, "failed", reason, problem(code, reason)), [line])


def _line(ports: Ports, entry_id: str, type_: str, message: str) -> TimelineEntry:
    return TimelineEntry(
        id=entry_id, at=ports.clock.now(), kind="status", type=type_, message=message
    )
