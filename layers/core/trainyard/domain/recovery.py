"""The recovery policy: from a run and its facts to what happens next and why.

It is pure, and driven by the stored state alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trainyard.domain import (
    approvals,
    budgets,
    causes,
    chains,
    closing,
    nodes,
    team_budgets,
    turns,
    ways,
)
from trainyard.domain.approval_records import Approval
from trainyard.domain.capacity import next_try
from trainyard.domain.clusters import without_slurm
from trainyard.domain.decisions import Decision, Draft, Next
from trainyard.domain.facts import Book, CancelRequested, ExportRequested
from trainyard.domain.observing import observe, without_a_step
from trainyard.domain.problems import brief, problem
from trainyard.domain.records import (
    Action,
    Attempt,
    Checkpoint,
    Cluster,
    Export,
    Incident,
    Problem,
    Run,
)
from trainyard.domain.words import because
from trainyard_contracts.events import ExportFinished, Fact, NodeUnhealthy

#: So long after its cluster's own deadline the run gives up too. The cluster's machine goes first,
#: for it knows the reason better.
GRACE_SECONDS = 120
#: Why a cluster that was ready serves no run now.
_MEANWHILE = {"Updating": "it is being changed.", "Stopped": "its fleet is stopped."}
#: Repairs behind the run's back wait this long at most for a new attempt's first step.
RESTART_SECONDS = 60


def decide(
    run: Run,
    facts: Iterable[Fact],
    cluster: Cluster | None,
    now: datetime,
    checkpoints: Iterable[Checkpoint] = (),
    parents: Sequence[Run] = (),
    place: turns.Place | None = None,
    approval: Approval | None = None,
) -> Decision:
    """Decide what the run's machine does next.

    `facts` are the run's and its cluster's, `checkpoints` the newest of its list, `parents` the
    runs of `after`, which a run that waits for them is given all, `place` whether it has its turn
    on a cluster that runs share, `approval` the one that the run waits for, once it is there.
    Deciding twice on the same state gives the same run and the same note ids, so the machine may
    repeat it at any point.
    """
    book = Book(
        facts,
        made_at=cluster.created_at if cluster else None,
        checkpoints=checkpoints,
        jobs_end=cluster is not None and cluster.spec.nodes_come_with_jobs,
    )
    draft = Draft(run=run, book=book, cluster=cluster, now=now)
    if run.terminal:
        return draft.freeze("finish")
    observe(draft)
    if draft.run.outcome is None:
        _cancelled(draft)
    if draft.run.outcome is None:
        team_budgets.keep_shared(draft)
    if draft.run.outcome is None and approvals.still_waits(draft, approval):
        return draft.freeze("wait")
    if draft.run.outcome is None and chains.still_waits(draft, parents):
        return draft.freeze("wait")
    if draft.run.outcome is None and turns.still_waits(draft, place):
        _export(draft)
        return draft.freeze(_next(draft))
    for stage in (_overdue, budgets.keep, _cluster, _attempt, _export):
        if draft.run.outcome is None:
            stage(draft)
    nodes.review_replacements(draft)
    if draft.run.outcome is not None:
        return closing.close(draft)
    return draft.freeze(_next(draft))


def _next(draft: Draft) -> Next:
    """Order matters: the job is submitted before the lost node's replacement is asked for."""
    attempt, export = draft.attempt, draft.run.export
    if not draft.cluster_ready:
        return "ensure-cluster"
    if attempt is not None and attempt.ended_at is None and attempt.submitted_at is None:
        return "submit"
    if draft.due and not _restart_goes_first(draft):
        return "repair"
    if export is not None and (
        export.state == "requested"
        or (export.state == "running" and _export_finished(draft, export))
    ):
        return "export"
    return "wait"


def _restart_goes_first(draft: Draft) -> bool:
    """A new node takes minutes, so it is asked for after the attempt's first step.

    Until then the attempt needs controller and network for itself.
    """
    attempt = draft.attempt
    if (
        attempt is None
        or attempt.ended_at is not None
        or attempt.submitted_at is None
        or attempt.first_step_at is not None
    ):
        return False
    if nodes.queued(draft) is not None or any(action.kind == "exclude" for action in draft.due):
        return False  # the job waits in Slurm's queue and may start on the very node asked for
    until = attempt.submitted_at + timedelta(seconds=RESTART_SECONDS)
    draft.by(until)
    return draft.now < until


def _cancelled(draft: Draft) -> None:
    request = next(
        (fact for fact in draft.book.of(CancelRequested) if fact.life == draft.run.life), None
    )
    if request is not None:
        by = request.by.name if request.by is not None else "a person"
        reason = f"Cancelled by {by}.{because(request.reason)}"
        if request.by is None and request.reason:
            reason = f"Cancelled: {request.reason}"
        draft.change(cancelled_by=request.by)
        draft.stop("cancelled", reason, problem("cancelled", reason))
        draft.note(
            f"cancel-{request.id}",
            "Cancelled",
            "Cancelling: the job is stopped, then what is whole is exported.",
        )


def _overdue(draft: Draft) -> None:
    limit = draft.run.spec.limits.max_duration_seconds
    end = draft.opened_at + timedelta(seconds=limit)
    draft.by(end)
    if draft.now < end:
        return
    reason = f"The run reached its longest duration of {limit} s."
    draft.stop("failed", reason, problem("duration-exceeded", reason))
    draft.note(
        "overdue", "DurationExceeded", f"{reason} Stopping the job and exporting what is whole."
    )


def _cluster(draft: Draft) -> None:
    """No training without a ready cluster: wait for it, or stop with the cluster's own problem."""
    cluster = draft.cluster
    if draft.cluster_ready:
        assert cluster is not None
        if draft.run.owns_cluster and draft.run.cluster_generation != cluster.generation:
            draft.change(cluster_generation=cluster.generation)
        return
    found = _cluster_problem(draft)
    if found is None:
        _cluster_deadline(draft)
        return
    reason = brief(found)
    draft.stop("failed", reason, found)
    draft.note(
        "cluster-failed",
        "ClusterFailed",
        f"Cluster '{cluster.name if cluster else draft.run.cluster_name}': {reason}",
    )


def _cluster_problem(draft: Draft) -> Problem | None:
    """Why there will be no cluster, if known.

    A run's own cluster of an earlier life says nothing about this one.
    """
    cluster, run = draft.cluster, draft.run
    if run.owns_cluster and (cluster is None or run.cluster_generation != cluster.generation):
        return None
    if cluster is None:
        return problem("cluster-not-found", f"No cluster is named '{run.cluster_name}'.")
    if cluster.status not in ("Failed", "Deleting", "Deleted"):
        return None
    if next_try(cluster, draft.now) is not None:
        return None
    return cluster.problem or problem(
        "cluster-failed", f"It became {cluster.status} while the run needed it."
    )


def _cluster_deadline(draft: Draft) -> None:
    limit = draft.run.spec.limits.cluster_deadline_seconds
    end = draft.opened_at + timedelta(seconds=limit)
    if ways.has_ways(draft) and draft.cluster is not None:
        end = max(end, draft.cluster.try_until or end)
    end += timedelta(seconds=GRACE_SECONDS if draft.run.owns_cluster else 0)
    draft.by(end)
    if draft.now >= end:
        reason = f"Cluster '{draft.run.cluster_name}' was not ready within {limit} s."
        draft.stop("failed", reason, problem("cluster-deadline", reason))
        draft.note("cluster-deadline", "ClusterDeadline", reason)
    else:
        down = without_slurm(draft.book) if draft.cluster is not None else None
        draft.status("Provisioning", _waiting_for(draft, down))


def _waiting_for(draft: Draft, down: NodeUnhealthy | None) -> str:
    tries = draft.cluster.tries if draft.cluster is not None else []
    said = f"try {tries[-1].number} for capacity, {tries[-1].way}." if tries else ""
    waiting = f"Waiting for cluster '{draft.run.cluster_name}'"
    if draft.cluster is not None and draft.cluster.status in _MEANWHILE:
        said = _MEANWHILE[draft.cluster.status]
    why = down.detail if down is not None else said
    return f"{waiting}: {why}" if why else f"{waiting} to be ready."


def _attempt(draft: Draft) -> None:
    """Judge the attempt that runs; plan the next one when none does."""
    if not draft.cluster_ready:
        return
    attempt = draft.attempt
    nodes.without_exclusions(draft)
    if ways.is_leaving(draft):
        if attempt is not None and (lost := causes.cluster_lost(draft, attempt)) is not None:
            _recover(draft, attempt, lost)  # nobody is left to be asked
        return
    if attempt is None or attempt.ended_at is not None:
        _plan(draft)
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
    nodes.review_exclusions(draft, attempt)
    if not nodes.enough_nodes(draft):
        _wait_for_node(draft, "", f"queued-{attempt.number}")
    elif draft.run.waiting_since is not None:
        draft.change(waiting_since=None)
        draft.status("Recovering", f"A node is back. Attempt {attempt.number} is in Slurm's queue.")


def _recover(draft: Draft, attempt: Attempt, finding: causes.Finding) -> None:
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
    _plan(draft, finding)
    if (
        finding.outcome == "lost"
        and draft.attempt == draft.run.attempts[-1]
        and draft.attempt.ended_at is not None
    ):
        # No successor will kill what is left of this job on the surviving nodes.
        draft.act(_cancelling(attempt, finding.because))


def _cancelling(attempt: Attempt, because: str) -> Action:
    return Action(id=f"cancel-job-{attempt.number}", kind="cancel-job", reason=because)


def _leave(draft: Draft, finding: causes.Finding) -> None:
    """The cluster is deleted, and the next attempt is planned when that of the next way is ready.

    Nothing of the job is left then.
    """
    assert draft.cluster is not None
    draft.act(ways.leaving(draft.cluster, finding.because))
    reason = f"{finding.because} The next way is tried."
    draft.status("Recovering", reason)
    draft.note(f"leave-{finding.fact.id}", "LeavingWay", reason, cause=finding.cause)


def _open_incident(draft: Draft, attempt: Attempt, finding: causes.Finding) -> None:
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


def _plan(draft: Draft, finding: causes.Finding | None = None) -> None:
    """Plan the next attempt, or wait for a node, or stop because a budget is used up."""
    because = f"{finding.because} " if finding else ""
    key = finding.fact.id if finding else f"plan-{_next_number(draft)}"
    if draft.attempts_left == 0:
        reason = f"{because}All {draft.run.spec.recovery.max_attempts} attempts are used."
        draft.stop("failed", reason, problem("attempts-exhausted", reason))
        draft.note(f"stop-{key}", "Stopped", reason)
    elif not nodes.enough_nodes(draft):
        _wait_for_node(draft, because, key)
    else:
        resume_as = (
            finding.resume_as
            if finding
            else ("A node is back. Resuming" if draft.run.waiting_since else "Submitting the job")
        )
        message = f"{because}{_continuation(draft, resume_as)}"
        recovering = finding is not None or draft.run.waiting_since is not None
        draft.note(
            f"resume-{key}",
            "Resuming" if recovering else "Submitting",
            message,
            cause=finding.cause if finding else None,
        )
        _add_attempt(draft, message, recovering, finding.avoid if finding else ())


def _add_attempt(draft: Draft, reason: str, recovering: bool, avoid: Sequence[str]) -> None:
    _replace_others(draft)
    attempt = Attempt(
        number=_next_number(draft),
        generation=draft.run.generation,
        life=draft.run.life,
        exclude=sorted({*nodes.bad_nodes(draft), *avoid}),
        down=sorted(draft.book.lost_nodes()),
        waited_since=draft.run.waiting_since,
    )
    draft.change(attempts=[*draft.run.attempts, attempt], waiting_since=None)
    draft.status("Recovering" if recovering else "Submitting", reason)


def _next_number(draft: Draft) -> int:
    return draft.run.attempts[-1].number + 1 if draft.run.attempts else 1


def _replace_others(draft: Draft) -> None:
    """Ask for new nodes also in place of those that were lost while no attempt ran."""
    for node, fact in draft.book.lost_nodes().items():
        if draft.handle_once(f"{fact.id}-{node}"):
            draft.act(causes.replacement(fact, node, causes.instance_of(fact, node)))


def _wait_for_node(draft: Draft, because: str, key: str) -> None:
    seconds = draft.run.spec.recovery.wait_for_node_seconds
    since = draft.run.waiting_since or draft.now
    draft.by(since + timedelta(seconds=seconds))
    have, need = nodes.usable_nodes(draft), draft.run.spec.job.nodes
    if draft.now >= since + timedelta(seconds=seconds):
        reason = (
            f"{because}{have} of {need} nodes are usable, and none came back within {seconds} s."
        )
        draft.stop("failed", reason, problem("nodes-exhausted", reason))
        draft.note(f"nodes-exhausted-{key}", "Stopped", reason)
    elif draft.run.waiting_since is None:
        reason = (
            f"{because}No spare is left: {have} of {need} nodes are usable. "
            f"Waiting up to {seconds} s for a node."
        )
        draft.change(waiting_since=draft.now)
        _replace_others(draft)
        draft.status("WaitingForNode", reason)
        draft.note(f"wait-{key}", "WaitingForNode", reason)


def _continuation(draft: Draft, resume_as: str) -> str:
    """'Resuming on other nodes from the newest whole checkpoint (step 120 as far as is known).'

    A checkpoint that is being committed at this moment may be newer. After its first step the new
    attempt reports from which step it went on, and so what the failure cost.
    """
    if not draft.run.attempts:
        return f"{resume_as}."
    newest = draft.book.newest_checkpoint()
    if newest is None:
        return f"{resume_as}; no whole checkpoint is known yet."
    return f"{resume_as} from the newest whole checkpoint ({newest} as far as is known)."


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
        action = causes.replacement(fact, node, causes.instance_of(fact, node))
        actions.setdefault(action.id, action)
        if node not in without:
            message = (
                f"{causes.lost_sentence(fact, node)} The run does not use it, so training goes "
                f"on; {left}."
            )
            draft.note(f"bystander-{fact.id}-{node}", "SpareLost", message)
    if len(handled) > len(draft.run.handled_facts):
        draft.change(handled_facts=list(handled), actions=list(actions.values()))


def _export(draft: Draft) -> None:
    """Plan an export that a person asked for while the run trains."""
    for request in draft.book.of(ExportRequested):
        if request.life == draft.run.life and draft.handle_once(request.id):
            draft.change(export=Export(id=request.id, requested_at=request.at))


def _export_finished(draft: Draft, export: Export) -> bool:
    return any(fact.export_id == export.id for fact in draft.book.of(ExportFinished))
