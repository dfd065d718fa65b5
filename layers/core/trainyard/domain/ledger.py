"""Where the money of a run went: each moment of its nodes has one cause, so the sum is the bill."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, get_args

from trainyard.domain.book import Book
from trainyard.domain.costs import HOUR, Spell, attempt_at, begin_of
from trainyard.domain.records import Attempt, CostLine, Run
from trainyard.domain.same_errors import EARLY_SECONDS
from trainyard_contracts.events import AttemptQueued, ClusterReady, ExportFinished, Fact

#: useful: training that nobody did again. creation: until the cluster is ready. creation-failed: of
#: a cluster that never was. start: from there to the first step. waiting: for a node, or in Slurm's
#: queue. detection: the last steps were over, and nobody had noticed. restart: from a fault to the
#: next first step. recomputation: steps that were trained twice. stall: no step for long, and
#: training went on. saving: the last checkpoint and the export. teardown: the deletion.
Cause = Literal[
    "useful", "creation", "creation-failed", "start", "waiting", "detection", "restart",
    "recomputation", "stall", "saving", "teardown",
]  # fmt: skip
CAUSES: tuple[Cause, ...] = get_args(Cause)
#: No step for so long is a stall, and for so many times the usual pause between two reports.
STALL_SECONDS = 120
STALL_TIMES = 3


@dataclass(frozen=True)
class Progress:
    """A report of an attempt's newest step."""

    at: datetime
    attempt: int
    step: int


@dataclass(frozen=True)
class Quiet:
    """A time in which no step came; `last`: none came after it."""

    since: datetime
    until: datetime
    last: bool


@dataclass(frozen=True)
class _Past:
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


def ledger(
    run: Run, facts: Iterable[Fact], spells: Sequence[Spell], progress: Sequence[Progress] = ()
) -> list[CostLine]:
    """A line for each cause that took any time, the useful part first.

    Every moment of every spell is in exactly one line, so their sum is that of the spells.
    """
    book = Book(facts)
    past = _past(run, book, spells, progress)
    found: dict[Cause, CostLine] = {}
    for spell in spells:
        cuts = sorted(
            {spell.since, spell.until}
            | {moment for moment in past.moments if spell.since < moment < spell.until}
        )
        for since, until in itertools.pairwise(cuts):
            cause = _cause(past, spell, since)
            found[cause] = _added(found.get(cause), cause, spell, (until - since).total_seconds())
    return [found[cause] for cause in CAUSES if cause in found]


def _added(line: CostLine | None, cause: Cause, spell: Spell, seconds: float) -> CostLine:
    before = line or CostLine(cause=cause, seconds=0, node_seconds=0, usd=0)
    hourly = spell.hourly_share
    usd = None if hourly is None or before.usd is None else before.usd + hourly * seconds / HOUR
    return CostLine(
        cause=cause,
        seconds=before.seconds + seconds,
        node_seconds=before.node_seconds + seconds * spell.nodes * spell.share,
        usd=usd,
    )


def _past(run: Run, book: Book, spells: Sequence[Spell], progress: Sequence[Progress]) -> _Past:
    ready = _ready(run, book, spells)
    again = _again(run, book)
    quiet = {one.number: _quiet(one, progress) for one in run.attempts}
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
    return _Past(run, ready, again, quiet, queued, exported, over, until, frozenset(moments))


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


def _quiet(attempt: Attempt, progress: Sequence[Progress]) -> list[Quiet]:
    """The times in which an attempt that trained made no step, by its reports."""
    if attempt.first_step_at is None:
        return []
    news: list[datetime] = [attempt.first_step_at]
    step, last = -1, attempt.first_step_at
    for report in sorted(progress, key=lambda one: one.at):
        if report.attempt != attempt.number or report.at < attempt.first_step_at:
            continue
        last = report.at
        if report.step > step:
            step = report.step
            news.append(report.at)
    if len(news) < 3:
        return []
    pauses = [(later - one).total_seconds() for one, later in itertools.pairwise(news)]
    usual = sorted(pauses)[len(pauses) // 2]
    most = max(STALL_SECONDS, STALL_TIMES * usual)
    pause = timedelta(seconds=usual)
    found = [
        Quiet(one + pause, later, False)
        for one, later in itertools.pairwise(news)
        if (later - one).total_seconds() > most
    ]
    end = attempt.ended_at or last
    if (end - news[-1]).total_seconds() > most:
        found.append(Quiet(news[-1] + pause, end, True))
    return found


def _cause(past: _Past, spell: Spell, moment: datetime) -> Cause:
    """What the nodes of a spell did from this moment on; nothing changes before the next one."""
    ready = past.ready.get(spell.generation)
    if ready is None:
        return "creation-failed" if spell.generation in past.over else "creation"
    attempt = attempt_at(past.run, moment)
    if moment < ready:
        return "creation"
    if attempt is None or begin_of(attempt) is None:
        return _between(past, None, moment)
    if attempt.ended_at is not None and moment >= attempt.ended_at:
        return _between(past, attempt, moment)
    return _within(past, attempt, moment)


def _between(past: _Past, attempt: Attempt | None, moment: datetime) -> Cause:
    """No attempt is on its way: before the first, after the last, or while the run waits."""
    run = past.run
    if run.outcome is not None and _is_last(run, attempt):
        return "teardown" if past.exported is not None and moment >= past.exported else "saving"
    following = next(
        (one for one in run.attempts if attempt is None or one.number > attempt.number), None
    )
    waited = following.waited_since if following is not None else run.waiting_since
    if waited is not None and moment >= waited:
        return "waiting"
    return "start" if attempt is None else "restart"


def _is_last(run: Run, attempt: Attempt | None) -> bool:
    begun = [one for one in run.attempts if begin_of(one) is not None]
    return not begun or (attempt is not None and attempt.number == begun[-1].number)


def _within(past: _Past, attempt: Attempt, moment: datetime) -> Cause:
    run, number = past.run, attempt.number
    newest = _is_last(run, attempt)
    if run.stopping_since is not None and moment >= run.stopping_since and newest:
        return "saving"
    before: Cause = "start" if number == run.attempts[0].number else "restart"
    if attempt.started_at is None or moment < attempt.started_at:
        return "waiting" if number in past.queued else before
    if attempt.first_step_at is None:  # a program may tell no steps at all
        if attempt.outcome in ("succeeded", "cancelled"):
            return "useful"
        if run.tells_steps or (attempt.ended_at is None and not _lives(past, attempt)):
            return before
        return "useful" if attempt.ended_at is None else "recomputation"
    if moment < attempt.first_step_at:
        return before
    for gap in past.quiet[number]:
        if gap.since <= moment < gap.until:
            return "detection" if gap.last and attempt.ended_at is not None else "stall"
    again = past.again.get(number)
    return "recomputation" if again is not None and moment >= again else "useful"


def _lives(past: _Past, attempt: Attempt) -> bool:
    """A program that tells no step has run for long enough to be believed that it works."""
    began = attempt.started_at
    return began is not None and past.until - began >= timedelta(seconds=EARLY_SECONDS)
