"""What a judge makes of the facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from trainyard.domain.decisions import Draft
from trainyard.domain.records import Action, Attempt, Problem
from trainyard_contracts.events import AttemptEnded, Fact

# Of the log that a problem shows, where no traceback is known.
LOG_CHARACTERS = 2000


@dataclass(frozen=True)
class Finding:
    """What a judge made of the facts.

    `because` is a sentence; the policy adds what follows from it.
    """

    cause: str
    fact: Fact
    because: str
    outcome: Literal["succeeded", "failed", "cancelled", "lost"] = "failed"
    stop: Literal["succeeded", "failed", "cancelled"] | None = None
    problem: Problem | None = None
    node: str | None = None
    signature: str | None = None
    exclude: Sequence[str] = ()
    avoid: Sequence[str] = ()
    actions: Sequence[Action] = ()
    #: The next way of the cluster's spec is tried.
    leaves: bool = False
    resume_as: str = "Starting again in place"


Judge = Callable[[Draft, Attempt], Finding | None]


def sentence_of(words: str) -> str:
    return f"{words.rstrip('.') or 'no reason given'}."


def end_of(draft: Draft, attempt: Attempt) -> AttemptEnded | None:
    return draft.book.end_of(attempt)


def shown(end: AttemptEnded) -> str:
    """Where the program failed: its own traceback; else the end of the log, in which all ranks
    speak.
    """
    if end.traceback.strip():
        where = f" on {end.failed_node}" if end.failed_node else ""
        return f" It failed here{where}:\n{end.traceback.strip()}"
    tail = end.log_tail.strip()
    if len(tail) > LOG_CHARACTERS:
        tail = tail[-LOG_CHARACTERS:]
        tail = tail.partition("\n")[2] or tail
    return f" End of the job's log:\n{tail}" if tail else ""
