"""The recovery policy: from a run and its facts to what happens next and why.

It is pure, and driven by the stored state alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trainyard.domain import (
    approval_wait,
    budgets,
    chains,
    closing,
    nodes,
    replacements,
    team_budgets,
    turns,
)
from trainyard.domain.approval_records import Approval
from trainyard.domain.attempt_recovery import judge_attempt
from trainyard.domain.book import Book
from trainyard.domain.cluster_recovery import wait_for_cluster
from trainyard.domain.decisions import Decision, Draft, Next
from trainyard.domain.observing import observe
from trainyard.domain.order_facts import CancelRequested, ExportRequested
from trainyard.domain.problems import problem
from trainyard.domain.records import Checkpoint, Cluster, Export, Run
from trainyard.domain.words import because
from trainyard_contracts.events import ExportFinished, Fact

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
    draft = Draft(run=run, book=_book(facts, cluster, checkpoints), cluster=cluster, now=now)
    if run.terminal:
        return draft.freeze("finish")
    observe(draft)
    if draft.run.outcome is None:
        _cancelled(draft)
    if draft.run.outcome is None:
        team_budgets.keep_shared(draft)
    if (step := _before_its_cluster(draft, approval, parents, place)) is not None:
        return draft.freeze(step)
    for stage in (_overdue, budgets.keep, wait_for_cluster, judge_attempt, _export):
        if draft.run.outcome is None:
            stage(draft)
    replacements.review_replacements(draft)
    if draft.run.outcome is not None:
        return closing.close(draft)
    return draft.freeze(_next(draft))


def _book(
    facts: Iterable[Fact], cluster: Cluster | None, checkpoints: Iterable[Checkpoint]
) -> Book:
    return Book(
        facts,
        made_at=cluster.created_at if cluster else None,
        checkpoints=checkpoints,
        jobs_end=cluster is not None and cluster.spec.nodes_come_with_jobs,
    )


def _before_its_cluster(
    draft: Draft,
    approval: Approval | None,
    parents: Sequence[Run],
    place: turns.Place | None,
) -> Next | None:
    """What the run does while it waits for an approval, other runs or its turn; else None."""
    if draft.run.outcome is None and approval_wait.still_waits(draft, approval):
        return "wait"
    if draft.run.outcome is None and chains.still_waits(draft, parents):
        return "wait"
    if draft.run.outcome is None and turns.still_waits(draft, place):
        _export(draft)
        return _next(draft)
    return None


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


def _export(draft: Draft) -> None:
    """Plan an export that a person asked for while the run trains."""
    for request in draft.book.of(ExportRequested):
        if request.life == draft.run.life and draft.handle_once(request.id):
            draft.change(export=Export(id=request.id, requested_at=request.at))


def _export_finished(draft: Draft, export: Export) -> bool:
    return any(fact.export_id == export.id for fact in draft.book.of(ExportFinished))
