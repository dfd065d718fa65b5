"""Writes facts that only inform into the run, before anything is decided.

Doing so twice is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from trainyard.domain.cluster_facts import ClusterDeleted
from trainyard.domain.decisions import Draft
from trainyard.domain.job_facts import JobStage
from trainyard.domain.records import Attempt, Incident, RunStatus
from trainyard.domain.same_errors import EARLY_SECONDS
from trainyard.domain.words import setup_sentence, waiting_sentence, whose
from trainyard_contracts.events import AttemptQueued, AttemptStarted, AttemptStepped, NodeReturned

#: A job whose nodes are still set up waits so long for them, or fails: after that its program runs.
SETUP_SECONDS = 1800


def observe(draft: Draft) -> None:
    """Bring the newest attempt, the incidents and the excluded nodes up to what the facts say."""
    attempt = draft.attempt
    if attempt is not None:
        _queued(draft, draft.book.last(AttemptQueued, attempt=attempt.number))
        _stage(draft, draft.book.last(JobStage, attempt=attempt.number))
        _started(draft, draft.book.first(AttemptStarted, attempt=attempt.number))
        _stepped(draft, draft.book.first(AttemptStepped, attempt=attempt.number))
        _runs(draft, draft.book.first(AttemptStarted, attempt=attempt.number))
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


def _runs(draft: Draft, fact: AttemptStarted | None) -> None:
    """A program that tells no step runs, too: from its start, as far as that is known.

    Where an earlier attempt had steps, the run waits for the next one instead, and goes on with
    that. Where none did, the incidents are over once the program has lived for EARLY_SECONDS:
    what fails sooner is judged as an error at the same place, so nothing has gone on before.
    """
    run, attempt = draft.run, draft.attempt
    if fact is None or attempt is None or attempt.started_at is None:
        return
    if run.outcome is not None or attempt.ended_at is not None or run.tells_steps:
        return
    waits = fact.waits_for and draft.book.saved_by(attempt) is None
    if waits and _is_before(draft, attempt.started_at + timedelta(seconds=SETUP_SECONDS)):
        return
    if run.status != "Running":
        where = ", ".join(fact.nodes[:16])
        draft.change(waiting_since=None)
        draft.status(
            "Running", f"Attempt {attempt.number} runs on {where}; no step has been told yet."
        )
    if not any(_is_open(incident, attempt.number) for incident in draft.run.incidents):
        return
    if not _is_before(draft, attempt.started_at + timedelta(seconds=EARLY_SECONDS)):
        without_a_step(draft, attempt)


def _is_before(draft: Draft, moment: datetime) -> bool:
    """Whether it is too early; then the run is looked at again at that moment."""
    if draft.now < moment:
        draft.by(moment)
    return draft.now < moment


def without_a_step(draft: Draft, attempt: Attempt) -> None:
    """Close the incidents before an attempt that ran, of a run whose program tells no step.

    They are over since its program started again. A later step corrects that.
    """
    opened = [one for one in draft.run.incidents if _is_open(one, attempt.number)]
    at = attempt.started_at
    if not opened or at is None or draft.run.tells_steps:
        return
    closed = [
        one.changed(resumed_at=max(at, one.started_at), resumed_by="start")
        if _is_open(one, attempt.number)
        else one
        for one in draft.run.incidents
    ]
    draft.change(incidents=closed)
    seconds = max(0.0, (at - opened[0].started_at).total_seconds())
    draft.note(
        f"resumed-start-{attempt.number}",
        "Resumed",
        f"The program runs again: attempt {attempt.number} started {seconds:.1f} s after the "
        "fault was noticed. It has told no step.",
        kind="status",
    )


def _stepped(draft: Draft, fact: AttemptStepped | None) -> None:
    """The attempt's first step closes every open incident: only now the run really goes on."""
    attempt = draft.attempt
    if fact is None or attempt is None:
        return
    at = fact.stepped_at
    first = attempt.first_step_at is None
    if first:
        draft.change_attempt(first_step_at=at, resumed_from=fact.resumed_from)
    before = draft.run.incidents
    opened = [one for one in before if _is_open(one, attempt.number)]
    if any(_waits_for_step(one, attempt.number) for one in before):
        draft.change(incidents=[_closed(incident, at, attempt.number) for incident in before])
    if opened:
        _tell_resumed(draft, fact, opened)
    if draft.run.outcome is not None or attempt.ended_at is not None:
        return
    if first or draft.run.status != "Running":
        draft.status("Running", f"Attempt {attempt.number} trains.")


def _tell_resumed(draft: Draft, fact: AttemptStepped, opened: Sequence[Incident]) -> None:
    start = fact.resumed_from
    source = f"from step {start}" if start is not None else "from the beginning"
    seconds = max(0.0, (fact.stepped_at - opened[0].started_at).total_seconds())
    cost = _cost(draft, opened, start or 0)
    if fact.source != "program":  # where it began, such a program does not say
        source, cost = f"({whose(fact.source)} says step {fact.step})", ""
    draft.note(
        f"resumed-{fact.id}",
        "Resumed",
        f"Training goes on {source}, {seconds:.1f} s after the fault was noticed{cost}.",
        kind="status",
    )


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


def _is_open(incident: Incident, attempt: int) -> bool:
    return incident.resumed_at is None and incident.attempt < attempt


def _waits_for_step(incident: Incident, attempt: int) -> bool:
    """One that a start has closed was no recovery yet, if a step comes after all."""
    return incident.attempt < attempt and (
        incident.resumed_at is None or incident.resumed_by == "start"
    )


def _closed(incident: Incident, at: datetime, attempt: int) -> Incident:
    if not _waits_for_step(incident, attempt):
        return incident
    return incident.changed(resumed_at=at, resumed_by="step")


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
