"""What follows training, whatever its outcome: stop the job, export, tear down, finish."""

from __future__ import annotations

from datetime import timedelta

from trainyard.domain import teardown
from trainyard.domain.decisions import Decision, Draft
from trainyard.domain.order_facts import CancelRequested
from trainyard.domain.problems import problem
from trainyard.domain.records import TERMINAL, Export, RunStatus
from trainyard.domain.results import kept_because

EXPORT_TRIES = 3
#: An export that is silent for this long is asked for again; the agent does not start the same one
#: twice.
EXPORT_ASK_SECONDS = 600
EXPORT_DEADLINE_SECONDS = 6 * 3600
#: A teardown that says nothing is looked at again this often.
TEARDOWN_LOOK_SECONDS = 900
#: After this many steps that failed for good, a run just ends.
TROUBLE_LIMIT = 5
FINAL_STATUS: dict[str, RunStatus] = {
    "succeeded": "Succeeded",
    "failed": "Failed",
    "cancelled": "Cancelled",
}


def close(draft: Draft) -> Decision:
    """One step of the way from the end of training to the end of the run."""
    _cancelled_too_late(draft)
    if teardown.wanted(draft.run):
        # Its nodes go with their cluster: nothing is repaired any more.
        draft.change(
            actions=[action for action in draft.run.actions if action.kind == "cancel-job"]
        )
    if draft.lost_cluster is not None:
        # Only the controller could stop the job, and nobody can reach it.
        draft.change(
            actions=[action for action in draft.run.actions if action.kind != "cancel-job"]
        )
    # What is held back, the backend repairs by itself, or has begun to.
    draft.change(actions=draft.due)
    if draft.run.actions:
        return draft.freeze("repair")
    if _stopping(draft):
        return draft.freeze("wait")
    if _exporting(draft):
        return draft.freeze("export")
    if _tearing_down(draft):
        return draft.freeze("teardown")
    return draft.freeze("finish")


def _cancelled_too_late(draft: Draft) -> None:
    """Note a cancel that came after training: export and teardown follow in any case."""
    late = next(
        (fact for fact in draft.book.of(CancelRequested) if fact.life == draft.run.life), None
    )
    if late is not None and draft.run.outcome != "cancelled":
        draft.note(
            f"late-{late.id}",
            "CancelledTooLate",
            "Training was over when the cancel came: the run ends as planned, and loses nothing.",
        )


def final_status(draft_outcome: str | None, has_problem: bool) -> RunStatus:
    """The run's last status: Failed also if it trained well but its result is not exported."""
    if draft_outcome == "succeeded" and has_problem:
        return "Failed"
    status = FINAL_STATUS[draft_outcome or "failed"]
    assert status in TERMINAL
    return status


def _stopping(draft: Draft) -> bool:
    """Wait for the end of a job that was asked to stop, but not for ever."""
    attempt = draft.attempt
    if attempt is None or attempt.ended_at is not None:
        return False
    end = draft.book.end_of(attempt)
    seconds = draft.cluster.spec.stop_seconds if draft.cluster is not None else 0
    limit = (draft.run.stopping_since or draft.now) + timedelta(seconds=seconds)
    live = attempt.submitted_at is not None or attempt.started_at is not None
    if end is None and live and draft.now < limit and draft.cluster_ready:
        draft.by(limit)
        return True
    draft.change_attempt(
        ended_at=end.at if end else draft.now, outcome="cancelled", reason=draft.run.reason
    )
    return False


def _exporting(draft: Draft) -> bool:
    run = draft.run
    if not teardown.has_something_to_lose(run):
        return False
    if _never_ready(draft):
        return False
    if not _can_export(draft):
        _give_up(draft, f"Cluster '{run.cluster_name}' cannot be reached any more.")
        return False
    export = run.export if run.export is not None and run.export.final else None
    if export is not None and export.state == "verified":
        return False  # the same export would leave the same files behind again
    draft.by(draft.now + timedelta(seconds=EXPORT_ASK_SECONDS))
    if export is None or (export.state == "failed" and export.tries < EXPORT_TRIES):
        _begin_export(draft, export)
        return True
    if export.state == "failed":
        _give_up(draft, export.reason)
        return False
    if draft.now >= export.requested_at + timedelta(seconds=EXPORT_DEADLINE_SECONDS):
        reason = f"The export did not end within {EXPORT_DEADLINE_SECONDS // 3600} h."
        draft.change(export=export.changed(state="failed", reason=reason, tries=EXPORT_TRIES))
        _give_up(draft, reason)
        return False
    draft.status("Exporting")
    return True


def _begin_export(draft: Draft, before: Export | None) -> None:
    """Ask for the final export, for the first time or after the one `before` failed."""
    run, tries = draft.run, before.tries + 1 if before else 1
    draft.change(
        export=Export(
            id=f"{run.id}-final-{run.life}-{tries}",
            final=True,
            requested_at=draft.now,
            tries=tries,
        )
    )
    draft.status("Exporting")
    draft.note(
        f"export-{tries}",
        "Exporting",
        f"Exporting checkpoints and the final model to S3{_again(before)}.",
        kind="status",
    )


def _can_export(draft: Draft) -> bool:
    """What jobs that bring their nodes left lies in S3, whatever becomes of their cluster."""
    if draft.cluster is not None and draft.cluster.spec.nodes_come_with_jobs:
        return True
    return draft.cluster_ready and draft.lost_cluster is None


def _never_ready(draft: Draft) -> bool:
    """Whether the run's cluster holds nothing, and no other place has what the run left."""
    cluster = draft.cluster
    if cluster is None or cluster.spec.nodes_come_with_jobs:
        return False
    return teardown.holds_nothing(cluster)


def _again(export: Export | None) -> str:
    return f" again, because: {export.reason}" if export is not None else ""


def _give_up(draft: Draft, reason: str) -> None:
    if draft.run.problem is None:
        draft.change(problem=problem("export-failed", reason))
    draft.note("export-failed", "ExportFailed", f"The export failed for good: {reason}")


def _tearing_down(draft: Draft) -> bool:
    """The run's own cluster goes when its policy says so and nothing is lost by it."""
    run, cluster = draft.run, draft.cluster
    if (
        not teardown.wanted(run)
        or cluster is None
        or cluster.status == "Deleted"
        or run.teardown_refused
    ):
        return False
    if kept := kept_because(run):
        draft.note("kept", "ClusterKept", f"Cluster '{cluster.name}' is kept. {kept}")
        draft.change(teardown_refused=kept)
        return False
    if teardown.has_something_to_lose(run) and not teardown.holds_nothing(cluster):
        draft.note(
            "kept",
            "ClusterKept",
            f"Cluster '{cluster.name}' is kept: what the run made is in no verified export.",
        )
        return False
    draft.status("TearingDown")
    draft.by(draft.now + timedelta(seconds=TEARDOWN_LOOK_SECONDS))
    return True
