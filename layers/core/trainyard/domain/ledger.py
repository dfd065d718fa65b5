"""Where the money of a run went: each moment of its nodes has one cause, so the sum is the bill."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, get_args

from trainyard.domain.book import Book
from trainyard.domain.costs import HOUR, Spell, attempt_at, begin_of
from trainyard.domain.quiet_times import Progress
from trainyard.domain.records import Attempt, CostLine, Run
from trainyard.domain.run_past import Past, past_of
from trainyard.domain.same_errors import EARLY_SECONDS
from trainyard_contracts.events import Fact

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


def ledger(
    run: Run, facts: Iterable[Fact], spells: Sequence[Spell], progress: Sequence[Progress] = ()
) -> list[CostLine]:
    """A line for each cause that took any time, the useful part first.

    Every moment of every spell is in exactly one line, so their sum is that of the spells.
    """
    book = Book(facts)
    past = past_of(run, book, spells, progress)
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


def _cause(past: Past, spell: Spell, moment: datetime) -> Cause:
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


def _between(past: Past, attempt: Attempt | None, moment: datetime) -> Cause:
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


def _within(past: Past, attempt: Attempt, moment: datetime) -> Cause:
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


def _lives(past: Past, attempt: Attempt) -> bool:
    """A program that tells no step has run for long enough to be believed that it works."""
    began = attempt.started_at
    return began is not None and past.until - began >= timedelta(seconds=EARLY_SECONDS)
