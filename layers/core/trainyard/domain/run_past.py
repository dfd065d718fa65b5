"""What is known of a run's past: when it was ready, trained and stood still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trainyard.domain.book import Book
from trainyard.domain.costs import Spell, begin_of
from trainyard.domain.quiet_times import Progress, Quiet, quiet_times
from trainyard.domain.records import Run
from trainyard_contracts.events import AttemptQueued, ClusterReady, ExportFinished


@dataclass(frozen=True)
class Past:
    """The run, and what is found out of its facts once."""

    run: Run
    ready: Mapping[int | None, datetime]
    #: By attempt: from when on its steps were trained again, and when it was quiet.
    again: Mapping[int, datetime]
    quiet: Mapping[int, Sequence[Quiet]]
    queued: frozenset[int]
    exported: datetime | None
    #: Generations of the cluster that are over.
    over: frozenset[int | None]
    #: Up to when it is counted.
    until: datetime
    moments: frozenset[datetime] = field(default_factory=frozenset)


def past_of(run: Run, book: Book, spells: Sequence[Spell], progress: Sequence[Progress]) -> Past:
    ready = _ready(run, book, spells)
    again = _again(run, book)
    quiet = {one.number: quiet_times(one, progress) for one in run.attempts}
    ends: list[ExportFinished] = book.of(ExportFinished)
    exported = max((fact.at for fact in ends if _is_final(run, fact)), default=None)
    queued = frozenset(fact.attempt for fact in book.of(AttemptQueued))
    moments = {*ready.values(), *again.values()}
    for attempt in run.attempts:
        moments |= {
            moment
            for moment in (
                begin_of(attempt),
                attempt.started_at,
                attempt.first_step_at,
                attempt.ended_at,
                attempt.waited_since,
            )
            if moment is not None
        }
        moments |= {edge for gap in quiet[attempt.number] for edge in (gap.since, gap.until)}
    moments |= {
        moment for moment in (run.waiting_since, run.stopping_since, exported) if moment is not None
    }
    last = {spell.generation: spell.ended for spell in spells}
    over = frozenset(generation for generation, ended in last.items() if ended)
    until = max((spell.until for spell in spells), default=run.created_at)
    return Past(run, ready, again, quiet, queued, exported, over, until, frozenset(moments))


def _is_final(run: Run, fact: ExportFinished) -> bool:
    return run.export is not None and run.export.final and fact.export_id == run.export.id


def _ready(run: Run, book: Book, spells: Sequence[Spell]) -> dict[int | None, datetime]:
    """When the cluster of each generation was ready, as far as it ever was."""
    marks = [fact.at for fact in book.of(ClusterReady)]
    for one in run.attempts:
        marks += [moment for moment in (begin_of(one), one.submitted_at, one.started_at) if moment]
    found: dict[int | None, datetime] = {}
    for spell in spells:
        inside = [moment for moment in marks if spell.since <= moment <= spell.until]
        if inside:
            found[spell.generation] = min([*inside, found.get(spell.generation, inside[0])])
    return found


def _again(run: Run, book: Book) -> dict[int, datetime]:
    """From when on the steps of an attempt were trained again by the next one that stepped.

    Steps are taken for equally long, since their times are not known one by one.
    """
    found = {}
    for number, attempt in enumerate(run.attempts):
        if attempt.ended_at is None or attempt.first_step_at is None:
            continue
        following = next((one for one in run.attempts[number + 1 :] if one.first_step_at), None)
        end = book.end_of(attempt)
        if following is None or end is None or end.last_step is None:
            continue
        first = attempt.resumed_from or 0
        made = end.last_step - first
        lost = min(made, end.last_step - (following.resumed_from or 0))
        if made > 0 and lost > 0:
            found[attempt.number] = (
                attempt.ended_at - (attempt.ended_at - attempt.first_step_at) * lost / made
            )
    return found
