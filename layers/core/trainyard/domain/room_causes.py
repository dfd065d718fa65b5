"""Causes: there are no nodes for the job."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.domain import capacity, capacity_refusals, ways
from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding, end_of, sentence_of
from trainyard.domain.job_facts import JobStage
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt
from trainyard_contracts.events import Fact


def no_capacity(draft: Draft, attempt: Attempt) -> Finding | None:
    """The backend found no nodes for the job. It is asked again for as long as a run waits for a
    node.
    """
    over = draft.book.job_end_of(attempt)
    if over is None or over.how != "no-capacity":
        return None
    job = f"job {over.job_id}" if over.job_id else f"attempt {attempt.number}"
    because = f"AWS had no nodes for {job}: {sentence_of(over.reason)}"
    if ways.has_ways(draft):
        return _next_way(draft, over, because)
    return _asked_again(draft, over, because, _asked_since(draft, attempt, over))


def _asked_since(draft: Draft, attempt: Attempt, fact: Fact) -> datetime:
    """Since when nodes are asked for without a step in between."""
    since, row = attempt.submitted_at or fact.at, set()
    for one in reversed(draft.incidents):
        if one.cause != "no-capacity" or one.resumed_at is not None:
            break
        row.add(one.attempt)
    asked = [one.submitted_at for one in draft.run.attempts if one.number in row]
    return min([since, *(at for at in asked if at is not None)])


def _asked_again(draft: Draft, fact: Fact, because: str, since: datetime) -> Finding:
    seconds = draft.run.spec.recovery.wait_for_node_seconds
    if draft.now < since + timedelta(seconds=seconds):
        return Finding("no-capacity", fact, because, outcome="lost", resume_as="Asking again")
    detail = f"{because} It was asked for {seconds} s (recovery.waitForNodeSeconds)."
    return Finding(
        "no-capacity", fact, because, stop="failed", problem=problem("no-capacity", detail)
    )


def never_began(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job ended before its program began: the nodes that Slurm gave it did not come up.

    Where AWS has none, they are asked for as long as a run waits for a node.
    """
    end = end_of(draft, attempt)
    if end is None or not ways.never_began(draft, attempt):
        return None
    since = _asked_since(draft, attempt, end)
    told = ways.told_since(draft, since)
    lacking = capacity_refusals.first_word(told)
    if lacking is None and end.error:
        return None
    said = lacking or (told[-1] if told else None)
    words = said.description or said.failure_message if said else "its nodes did not come up"
    because = f"Job {end.job_id} ended before its program began: {sentence_of(words)}"
    if lacking is not None:
        return _asked_again(draft, end, because, since)
    return Finding("never-began", end, because, outcome="lost", resume_as="Asking again")


def no_nodes(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job waits, and AWS says that it has no nodes for it, for longer than a try may last."""
    word = ways.word(draft, attempt)
    if word is None:
        return None
    until = ways.lasts_until(draft, word)
    end = end_of(draft, attempt)
    reason = word.words if isinstance(word, JobStage) else word.description or word.failure_message
    because = f"AWS has no nodes for job {attempt.job_id}: {sentence_of(reason)}"
    if draft.now < until:
        draft.by(until)
        if end is None:
            return None
        return Finding("no-capacity", end, because, outcome="lost", resume_as="Asking again")
    return _next_way(draft, word, because)


def _next_way(draft: Draft, fact: Fact, because: str) -> Finding:
    if ways.following(draft, because) is not None:
        return Finding("no-capacity", fact, because, outcome="lost", leaves=True)
    found = ways.none_left(draft, because)
    return Finding("no-capacity", fact, because, stop="failed", problem=found)


def not_allowed(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job waits for nodes that AWS refuses, for a reason that only a person can mend."""
    told = ways.events(draft, attempt)
    found = capacity.forbidden(told)
    if found is None:
        return None
    return Finding("refused", told[-1], found.detail, stop="failed", problem=found)
