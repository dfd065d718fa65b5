"""When a cluster may be deleted: never while a run uses it or it holds a checkpoint's only copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainyard.domain.book import Book
from trainyard.domain.facts import Unreadable
from trainyard.domain.job_facts import SavedRun, UnsavedRun
from trainyard.domain.records import Attempt, Cluster, Run
from trainyard.domain.results import without_result
from trainyard_contracts.events import Fact, OtherJobs


def blocker(
    cluster: Cluster,
    active_runs: Iterable[Run],
    cluster_facts: Iterable[Fact],
    others: OtherJobs | None = None,
    unread: Sequence[str] = (),
) -> str | None:
    """Why the cluster must not be deleted now, or None if it may.

    A failed cluster is of no use and costs money: it may go. `unread` are runs that may use it and
    whose records this version cannot read.
    """
    if cluster.status == "Failed":
        return None
    if users := users_of(active_runs, never_ready=holds_nothing(cluster)):
        return f"Cluster '{cluster.name}' is used by {_listed(users)}."
    if unread:
        return (
            f"Cluster '{cluster.name}' may be used by {_listed(unread)}: this version of Trainyard "
            "cannot read its record."
        )
    if cluster.delete_forced:
        return None
    if reason := _not_archived(cluster):
        return reason
    holders = unsaved_runs(cluster, cluster_facts)
    if holders:
        return (
            f"Cluster '{cluster.name}' holds results of {_listed(holders)} that are in no "
            "verified export."
        )
    # A release of what others made ends nobody's job.
    theirs = others is not None and cluster.adoption is None
    if others is not None and theirs and (others.running or others.queued):
        return f"Cluster '{cluster.name}' is used by people: {_jobs(others)}."
    return None


def _not_archived(cluster: Cluster) -> str | None:
    archive = cluster.archive
    if archive is None or archive.export is None or not archive.kept:
        return None
    return (
        f"What lies on the own filesystem of cluster '{cluster.name}' could not be exported to "
        f"{cluster.spec.archive}: {archive.export.reason.rstrip('.')}."
    )


def users_of(active_runs: Iterable[Run], *, never_ready: bool = False) -> list[str]:
    """The runs that still need their cluster: to train, or to export what lies on it."""
    return sorted(
        run.id
        for run in active_runs
        if run.outcome is None or (has_something_to_lose(run) and not never_ready)
    )


def holds_nothing(cluster: Cluster) -> bool:
    """Whether no job was ever given to it, for it was never ready: it has nothing of any run."""
    return cluster.ready_at is None and cluster.status not in ("Ready", "Updating", "Stopped")


def _jobs(others: OtherJobs) -> str:
    """'2 running and 1 queued jobs of alice, bob'."""
    counts = [
        f"{count} {word}"
        for count, word in ((others.running, "running"), (others.queued, "queued"))
        if count
    ]
    jobs = "job" if others.running + others.queued == 1 else "jobs"
    return f"{' and '.join(counts)} {jobs} of {_listed(others.users) or 'somebody'}"


def unsaved_runs(cluster: Cluster, cluster_facts: Iterable[Fact]) -> list[str]:
    """Runs that ended with checkpoints on the cluster that no verified export holds.

    An FSx file system outlives the cluster, but it may be temporary, or someone may delete it. Only
    a verified export counts.
    """
    unsaved: dict[str, None] = {}
    book = Book(cluster_facts)
    marks: list[UnsavedRun | SavedRun] = book.of(UnsavedRun, SavedRun)
    for fact in marks:
        if fact.generation not in (None, cluster.generation):
            continue
        if isinstance(fact, UnsavedRun):
            unsaved[fact.run_id] = None
        else:
            unsaved.pop(fact.run_id, None)
    # A fact of another version that we cannot read may be an UnsavedRun, too.
    return [
        *unsaved,
        *(
            f"a run of which fact {fact.id} tells, which cannot be read"
            for fact in book.of(Unreadable)
        ),
    ]


def has_something_to_lose(run: Run) -> bool:
    """The run trained on its cluster, wants an export, and has none verified after training."""
    trained = any(_may_have_trained(attempt) for attempt in run.attempts)
    saved = (
        run.export is not None
        and run.export.final
        and run.export.state == "verified"
        and not run.export.left_behind
    )
    return trained and run.spec.export.enabled and not saved


def _may_have_trained(attempt: Attempt) -> bool:
    """A job that started was submitted, even where the answer to the submission was lost. One that
    was given up for want of nodes has nothing, unless it made a step all the same.
    """
    if attempt.wanting and attempt.first_step_at is None:
        return False
    return attempt.submitted_at is not None or attempt.started_at is not None


def wanted(run: Run) -> bool:
    """The run's own policy asks for the deletion of its own cluster."""
    policy = run.spec.teardown_policy
    return run.owns_cluster and (
        policy == "always" or (policy == "on-success" and run.outcome == "succeeded")
    )


def overdue(cluster: Cluster, owner: Run) -> bool:
    """The run that owns the cluster is over and wanted its deletion, but nothing deletes it."""
    ours = cluster.owner_run == owner.id and owner.cluster_generation in (None, cluster.generation)
    # A cluster that stays because no result was found is deleted when it is idle, as any other.
    return (
        ours
        and owner.terminal
        and wanted(owner)
        and not without_result(owner)
        and cluster.status not in ("Deleting", "Deleted")
    )


def _listed(ids: Iterable[str]) -> str:
    names = sorted(ids)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
