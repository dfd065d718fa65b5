"""An attempt ended: the incident begins, and what follows is planned."""

from __future__ import annotations

from trainyard.domain import ways
from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding
from trainyard.domain.next_attempt import plan_next
from trainyard.domain.observing import without_a_step
from trainyard.domain.records import Action, Attempt, Incident


def recover(draft: Draft, attempt: Attempt, finding: Finding) -> None:
    """End the attempt for this reason, then go on with another one, wait for a node, or stop."""
    draft.change_attempt(ended_at=finding.fact.at, outcome=finding.outcome, reason=finding.because)
    if finding.actions and draft.handle_once(f"{finding.fact.id}-{finding.node}"):
        for action in finding.actions:
            draft.act(action)
    if finding.stop == "succeeded":
        without_a_step(draft, attempt)
        draft.stop("succeeded", finding.because)
        draft.note(f"end-{finding.fact.id}", "TrainingFinished", finding.because)
        return
    _open_incident(draft, attempt, finding)
    if finding.exclude:
        draft.change(excluded_nodes=sorted({*draft.run.excluded_nodes, *finding.exclude}))
    if finding.stop is not None:
        if finding.stop == "failed" and draft.book.end_of(attempt) is None:
            draft.act(_cancelling(attempt, finding.because))
        draft.stop(finding.stop, finding.because, finding.problem)
        draft.note(
            f"stop-{finding.fact.id}",
            "Stopped",
            f"{finding.because} Stopped: trying again would not help.",
            cause=finding.cause,
        )
        return
    wants = ways.has_ways(draft) or ways.never_began(draft, attempt)
    if finding.cause == "no-capacity" and wants:
        draft.change_attempt(wanting=True)
    if finding.leaves:
        _leave(draft, finding)
        return
    plan_next(draft, finding)
    if (
        finding.outcome == "lost"
        and draft.attempt == draft.run.attempts[-1]
        and draft.attempt.ended_at is not None
    ):
        # No successor will kill what is left of this job on the surviving nodes.
        draft.act(_cancelling(attempt, finding.because))


def _cancelling(attempt: Attempt, because: str) -> Action:
    return Action(id=f"cancel-job-{attempt.number}", kind="cancel-job", reason=because)


def _leave(draft: Draft, finding: Finding) -> None:
    """The cluster is deleted, and the next attempt is planned when that of the next way is ready.

    Nothing of the job is left then.
    """
    assert draft.cluster is not None
    draft.act(ways.leaving(draft.cluster, finding.because))
    reason = f"{finding.because} The next way is tried."
    draft.status("Recovering", reason)
    draft.note(f"leave-{finding.fact.id}", "LeavingWay", reason, cause=finding.cause)


def _open_incident(draft: Draft, attempt: Attempt, finding: Finding) -> None:
    incident = Incident(
        cause=finding.cause,
        attempt=attempt.number,
        life=draft.run.life,
        fact_id=finding.fact.id,
        started_at=finding.fact.at,
        actions=[action.kind for action in finding.actions]
        + [f"exclude {node}" for node in finding.exclude],
        reason=finding.because,
        error_signature=finding.signature,
        node=finding.node,
    )
    draft.change(incidents=[*draft.run.incidents, incident])
