"""Whether a run's cluster is left for the next way of its spec: a job waits, and AWS has no nodes.

A cluster is left only where nothing is lost by that.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.domain import capacity, capacity_refusals
from trainyard.domain.cluster_facts import ClusterEvent, LifecycleFailed
from trainyard.domain.decisions import Draft
from trainyard.domain.job_facts import JobStage
from trainyard.domain.problems import problem
from trainyard.domain.records import Action, Attempt, CapacityTry, Cluster, Problem, Run

#: What may say that AWS has no nodes.
Word = ClusterEvent | JobStage


def has_ways(draft: Draft) -> bool:
    """Whether the run's own cluster is one of several ways."""
    cluster = draft.cluster
    return cluster is not None and bool(cluster.tries) and cluster.owner_run == draft.run.id


def events(draft: Draft, attempt: Attempt) -> list[ClusterEvent]:
    """What AWS said of nodes since the run's first job here, while none of its jobs has run."""
    cluster, run = draft.cluster, draft.run
    if cluster is None or cluster.owner_run != run.id or cluster.ready_at is None:
        return []
    hollow = never_began(draft, attempt)
    if not (attempt.waits or hollow) or _started(run, besides=attempt if hollow else None):
        return []
    asked = [one.submitted_at for one in run.attempts if one.submitted_at is not None]
    return told_since(draft, min((at for at in asked if at >= cluster.ready_at), default=draft.now))


def told_since(draft: Draft, since: datetime) -> list[ClusterEvent]:
    """What AWS said of the nodes that the run's jobs may have."""
    partition = draft.run.spec.job.partition
    return [
        one
        for one in draft.book.of(ClusterEvent)
        if one.at >= since
        and not isinstance(one, LifecycleFailed)
        and (partition is None or not one.partitions or partition in one.partitions)
    ]


def never_began(draft: Draft, attempt: Attempt) -> bool:
    """Whether the attempt's job ended before its program began.

    Its agent may have looked at a directory that was empty; what is known of its steps counts more.
    """
    end = draft.book.end_of(attempt)
    if end is None or not end.never_ran or end.last_step is not None:
        return False
    return attempt.first_step_at is None and draft.book.saved_by(attempt) is None


def word(draft: Draft, attempt: Attempt) -> Word | None:
    """AWS's first word that it has no nodes for the job, while that is so."""
    if not has_ways(draft) or _is_kept(draft):
        return None
    if goes_on(attempt) in draft.run.handled_facts and not never_began(draft, attempt):
        return None
    stages = [one for one in draft.book.of(JobStage) if one.attempt == attempt.number]
    lacking: list[JobStage] = []
    for stage in stages:
        lacking = [*lacking, stage] if stage.lacks else []
    if lacking and attempt.started_at is None:
        return lacking[0]
    return capacity_refusals.first_word(events(draft, attempt))


def lasts_until(draft: Draft, first: Word) -> datetime:
    """When the next way's turn comes."""
    assert draft.cluster is not None
    way = capacity.way_of(draft.cluster, draft.cluster.tries[-1].number)
    return first.at + timedelta(seconds=way.try_for_seconds)


def following(draft: Draft, reason: str) -> CapacityTry | None:
    """The try that follows if the cluster is left now; None if there is none, or it must stay."""
    cluster, run = draft.cluster, _wanting(draft.run)
    if cluster is None or not has_ways(draft):
        return None
    if not cluster.spec.nodes_come_with_jobs and _started(run):
        return None  # what was trained may lie on the cluster alone
    return capacity.next_try(left(run, cluster, reason, draft.now), draft.now)


def _wanting(run: Run) -> Run:
    """The run as it is once its newest attempt is given up for want of nodes."""
    newest = [one.changed(wanting=True) for one in run.attempts[-1:]]
    return run.changed(attempts=[*run.attempts[:-1], *newest])


def left(run: Run, cluster: Cluster, reason: str, now: datetime) -> Cluster:
    """The cluster as it is left now. Other backends do not have what a job of it has trained."""
    until = deadline(run, cluster, now)
    return capacity.wanting(cluster, reason, now, until, bound=bool(_started(run)))


def deadline(run: Run, cluster: Cluster, now: datetime) -> datetime | None:
    """Of this want: that of the cluster's making, or as long again since a job last had nodes."""
    if not (started := _started(run)) or cluster.try_until is None:
        return cluster.try_until
    since = started[-1].ended_at or now
    seconds = run.spec.limits.cluster_deadline_seconds
    return max(cluster.try_until, since + timedelta(seconds=seconds))


def none_left(draft: Draft, reason: str) -> Problem:
    """The problem of a run that no way has nodes for, with each way's last word."""
    cluster = draft.cluster
    assert cluster is not None
    over = capacity.wanting(cluster, reason, draft.now, cluster.try_until)
    return capacity.exhausted(over) or problem("no-capacity", reason)


def leaving(cluster: Cluster, reason: str) -> Action:
    """That the cluster is left; once for each of its generations."""
    return Action(id=f"leave-{cluster.generation}", kind="leave", reason=reason)


def is_leaving(draft: Draft) -> bool:
    """Whether the cluster is to be left, and is not yet."""
    cluster = draft.cluster
    if cluster is None:
        return False
    return any(one.id == leaving(cluster, "").id for one in draft.run.actions)


def kept(cluster: Cluster) -> str:
    """It is among the handled facts of a run whose cluster could not be left: it never is."""
    return f"kept-{cluster.generation}"


def goes_on(attempt: Attempt) -> str:
    """It is among the handled facts of a run whose job got nodes when its cluster was to be left:
    what AWS said before counts no more, unless none of these nodes comes.
    """
    return f"goes-on-{attempt.number}"


def _is_kept(draft: Draft) -> bool:
    return draft.cluster is not None and kept(draft.cluster) in draft.run.handled_facts


def _started(run: Run, *, besides: Attempt | None = None) -> list[Attempt]:
    """Attempts that had nodes. Slurm gives a job nodes that are still to be powered up, too, so one
    that was given up for want of nodes counts only if it made a step all the same.
    """
    return [
        one
        for one in run.attempts
        if one.started_at is not None
        and (not one.wanting or one.first_step_at is not None)
        and (besides is None or one.number != besides.number)
    ]
