"""An attempt that is not submitted yet, or never: what people read of it, and what is put right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.app.machines.run.agent_answers import BundleChanged, CodeChanged, Fetching
from trainyard.app.machines.run.delays import tell_delay
from trainyard.app.machines.run.keep_code import forget_copies, keep_code
from trainyard.domain.errors import RetryableError
from trainyard.domain.job_ends import job_ended
from trainyard.domain.kinds import sentence
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt, Cluster, Run, TimelineEntry
from trainyard.domain.runs import stopped
from trainyard.ports import Ports

_STATES: Mapping[type[RetryableError], str] = {
    BundleChanged: "was refused",
    CodeChanged: "was refused",
    Fetching: "waits",
}


def without_nodes(ports: Ports, run: Run, attempt: Attempt, detail: str) -> dict[str, Any]:
    """AWS made no job for want of nodes; what follows, the decision says."""
    now = ports.clock.now()
    ended = job_ended("", run.id, attempt.number, "no-capacity", detail, now)
    assert ended is not None
    fact = ended.changed(id=f"no-job-{run.id}-{attempt.number}")
    ports.runs.record(run.id, fact, sentence(fact))
    asked = attempt.changed(submitted_at=now)
    ports.runs.put(run.changed(attempts=[*run.attempts[:-1], asked]))
    return {"submitted": False}


def may_take_long(run: Run, cluster: Cluster) -> bool:
    """Data of the run, or the end of its last job, which is stopped first."""
    return bool(run.spec.inputs) or cluster.spec.nodes_come_with_jobs


def delayed(ports: Ports, run: Run, attempt: Attempt, error: RetryableError) -> None:
    """Say why, and put right what can be put right from here."""
    state = _STATES.get(type(error), "has no answer yet")
    key = f"submit-{attempt.number}{f'-{type(error).__name__}' if type(error) in _STATES else ''}"
    tell_delay(ports, run.id, key, f"The submission of attempt {attempt.number} {state}", error)
    if isinstance(error, CodeChanged):
        keep_code(ports, forget_copies(run))


def fetching(ports: Ports, run: Run, attempt: Attempt, error: Fetching) -> dict[str, Any]:
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


def refused(ports: Ports, run: Run, code: str, detail: str) -> dict[str, Any]:
    """End the run: no other attempt could do better."""
    now = ports.clock.now()
    line = TimelineEntry(
        id=f"status-{code}-{run.life}", at=now, kind="status", type="Stopped", message=detail
    )
    ports.runs.put(stopped(run, now, "failed", detail, problem(code, detail)), [line])
    return {"submitted": False}
