"""Writes facts that only inform into the run, before anything is decided.

Doing so twice is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trainyard.domain.decisions import Draft
from trainyard.domain.facts import ClusterDeleted, JobStage
from trainyard.domain.records import Incident, RunStatus
from trainyard.domain.words import setup_sentence, waiting_sentence, whose
from trainyard_contracts.events import AttemptQueued, AttemptStarted, AttemptStepped, NodeReturned


def observe(draft: Draft) -> None:
    """Bring the newest attempt, the incidents and the excluded nodes up to what the facts say."""
    attempt = draft.attempt
    if attempt is not None:
        _queued(draft, draft.book.last(AttemptQueued, attempt=attempt.number))
        _stage(draft, draft.book.last(JobStage, attempt=attempt.number))
        _started(draft, draft.book.first(AttemptStarted, attempt=attempt.number))
        _stepped(draft, draft.book.first(AttemptStepped, attempt=attempt.number))
    _returned(draft)
    if (
        draft.cluster is not None
        and draft.cluster.status == "Deleted"
        and draft.book.of(ClusterDeleted)
    ):
        draft.change(cluster_deleted=True)


def _stage(draft: Draft, fact: JobStage | None) -> None:
    """Say in the run's reason how far its job is, until its program starts."""
    attempt = draft.attempt
    if fact is None or attempt is None or not attempt.waits or draft.run.outcome is not None:
        return
    if draft.run.status in ("Submitting", "Recovering"):
        draft.change(reason=f"Attempt {attempt.number}: {fact.words}.")


def _queued(draft: Draft, fact: AttemptQueued | None) -> None:
    """Say in the run's reason for which jobs its job waits; an earlier reason may be wrong."""
    attempt = draft.attempt
    if fact is None or attempt is None or not attempt.waits or draft.run.outcome is not None:
        return
    if draft.run.status in ("Submitting", "Recovering"):
        draft.change(reason=waiting_sentence(fact))


def _started(draft: Draft, fact: AttemptStarted | None) -> None:
    attempt = draft.attempt
    if fact is None or attempt is None or attempt.started_at is not None:
        return
    draft.change_attempt(
        started_at=fact.at,
        nodes=fact.nodes,
        job_id=fact.job_id,
        began_with=draft.book.newest_checkpoint(before=attempt.number) or "",
    )
    if draft.run.outcome is not None:
        return
    waited = draft.book.last(AttemptQueued, attempt=attempt.number) is not None
    words = setup_sentence(fact.waits_for)
    if draft.run.status == "Submitting" or waited or words:
        draft.change(waiting_since=None)
        status: RunStatus = (
            "Recovering" if draft.run.status == "WaitingForNode" else draft.run.status
        )
        draft.status(
            status, f"Attempt {attempt.number} starts on {', '.join(fact.nodes[:16])}.{words}"
        )


def _stepped(draft: Draft, fact: AttemptStepped | None) -> None:
    """The attempt's first step closes every open incident: only now the run really goes on."""
    attempt = draft.attempt
    if fact is None or attempt is None:
        return
    at = fact.stepped_at
    if attempt.first_step_at is None:
        draft.change_attempt(first_step_at=at, resumed_from=fact.resumed_from)
    opened = [
        incident
        for incident in draft.run.incidents
        if incident.resumed_at is None and incident.attempt < attempt.number
    ]
    if opened:
        draft.change(
            incidents=[_closed(incident, at, attempt.number) for incident in draft.run.incidents]
        )
        start = fact.resumed_from
        source = f"from step {start}" if start is not None else "from the beginning"
        seconds = max(0.0, (at - opened[0].started_at).total_seconds())
        cost = _cost(draft, opened, start or 0)
        if fact.source != "program":  # where it began, such a program does not say
            source, cost = f"({whose(fact.source)} says step {fact.step})", ""
        draft.note(
            f"resumed-{fact.id}",
            "Resumed",
            f"Training goes on {source}, {seconds:.1f} s after the fault was noticed{cost}.",
            kind="status",
        )
    if draft.run.outcome is None and attempt.ended_at is None and draft.run.status != "Running":
        draft.status("Running", f"Attempt {attempt.number} trains.")


def _cost(draft: Draft, incidents: Sequence[Incident], start: int) -> str:
    """'; the last step reported before was 127, so 7 steps are lost'.

    It is '' while the end of an attempt is not known yet.
    """
    numbers = {incident.attempt for incident in incidents}
    ends = [
        draft.book.end_of(attempt) for attempt in draft.run.attempts if attempt.number in numbers
    ]
    steps = [end.last_step for end in ends if end is not None and end.last_step is not None]
    if None in ends or not steps:
        return ""
    lost = max(0, max(steps) - start)
    words = {0: "no step is", 1: "1 step is"}.get(lost, f"{lost} steps are")
    return f"; the last step reported before was {max(steps)}, so {words} lost"


def _closed(incident: Incident, at: datetime, attempt: int) -> Incident:
    if incident.resumed_at is not None or incident.attempt >= attempt:
        return incident
    return incident.changed(resumed_at=at)


def _returned(draft: Draft) -> None:
    """A node that came back after it was left out may be used again.

    It was replaced or repaired, or its whole cluster was.
    """
    back = {fact.about.node: fact.at for fact in draft.book.of(NodeReturned)}
    suspected = {
        incident.node: incident.started_at for incident in draft.run.incidents if incident.node
    }
    made_at = draft.cluster.created_at if draft.cluster else None

    def cleared(node: str) -> bool:
        since = suspected.get(node)
        return since is not None and (
            back.get(node, since) > since or (made_at is not None and made_at > since)
        )

    kept = [node for node in draft.run.excluded_nodes if not cleared(node)]
    if kept != draft.run.excluded_nodes:
        draft.change(excluded_nodes=kept)
