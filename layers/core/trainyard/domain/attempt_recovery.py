"""What a run does when its attempt is over."""

from __future__ import annotations

from trainyard.domain import causes, exclusions, loss_causes, nodes, ways
from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding
from trainyard.domain.next_attempt import plan_next, wait_for_node
from trainyard.domain.observing import without_a_step
from trainyard.domain.records import Action, Attempt, Incident


def judge_attempt(draft: Draft) -> None:
    """Judge the attempt that runs; plan the next one when none does."""
    if not draft.cluster_ready:
        return
    attempt = draft.attempt
    exclusions.without_exclusions(draft)
    if ways.is_leaving(draft):
        if attempt is not None and (lost := loss_causes.cluster_lost(draft, attempt)) is not None:
            _recover(draft, attempt, lost)  # nobody is left to be asked
        return
    if attempt is None or attempt.ended_at is not None:
        plan_next(draft)
        return
    finding = causes.find(draft, attempt) if attempt.submitted_at is not None else None
    if finding is not None:
        _recover(draft, attempt, finding)
    else:
        _bystanders(draft, attempt)
        if attempt.waits:
            _queued(draft, attempt)


def _queued(draft: Draft, attempt: Attempt) -> None:
    """The job waits in Slurm's queue.

    It may wait for other jobs as long as the run may last, and for missing nodes as long as for any
    node.
    """
    exclusions.review_exclusions(draft, attempt)
    if not nodes.enough_nodes(draft):
        wait_for_node(draft, "", f"queued-{attempt.number}")
    elif draft.run.waiting_since is not None:
        draft.change(waiting_since=None)
        draft.status("Recovering", f"A node is back. Attempt {attempt.number} is in Slurm's queue.")


def _recover(draft: Draft, attempt: Attempt, finding: Finding) -> None:
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


def _bystanders(draft: Draft, attempt: Attempt) -> None:
    """A node that the run does not use is lost: training goes on, and a new node is asked for."""
    # While the attempt's nodes are unknown, nobody can say which node it does not use. A node that
    # the attempt was planned without was asked for at that time.
    if not attempt.nodes and nodes.queued(draft) is None:
        return
    spares, without = nodes.usable_nodes(draft) - draft.run.spec.job.nodes, set(attempt.exclude)
    left = f"{spares} spare{'' if spares == 1 else 's'} left" if spares > 0 else "no spare is left"
    # Thousands may be lost at once. One change of the run handles and asks for all of them.
    handled, actions = (
        dict.fromkeys(draft.run.handled_facts),
        {action.id: action for action in draft.run.actions},
    )
    for node, fact in draft.book.lost_nodes().items():
        asked = node in without and any(key.endswith(f"-{node}") for key in handled)
        if asked or f"{fact.id}-{node}" in handled:
            continue
        handled[f"{fact.id}-{node}"] = None
        action = loss_causes.replacement(fact, node, loss_causes.instance_of(fact, node))
        actions.setdefault(action.id, action)
        if node not in without:
            message = (
                f"{loss_causes.lost_sentence(fact, node)} The run does not use it, so training "
                f"goes on; {left}."
            )
            draft.note(f"bystander-{fact.id}-{node}", "SpareLost", message)
    if len(handled) > len(draft.run.handled_facts):
        draft.change(handled_facts=list(handled), actions=list(actions.values()))
