"""What a run has cost: the time in which its nodes were there, times the price then in force.

All is pure, and made of facts: the price that was in force is one of them, with its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from trainyard.domain.book import Book
from trainyard.domain.capacity_facts import PriceInForce, TryGone
from trainyard.domain.cluster_facts import ClusterDeleted
from trainyard.domain.records import Attempt, Run
from trainyard_contracts.events import Fact

HOUR = 3600


@dataclass(frozen=True)
class Spell:
    """A time in which nodes were there at one price, and the part of them that is the run's."""

    since: datetime
    until: datetime
    hourly_usd: float | None
    source: Literal["list", "given", ""]
    nodes: int
    share: float
    generation: int | None
    #: It is over, and gets no longer.
    ended: bool

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()

    @property
    def node_seconds(self) -> float:
        return self.seconds * self.nodes * self.share

    @property
    def hourly_share(self) -> float | None:
        """What an hour costs the run."""
        return None if self.hourly_usd is None else self.hourly_usd * self.share

    @property
    def usd(self) -> float | None:
        hourly = self.hourly_share
        return None if hourly is None else hourly * self.seconds / HOUR


def spells(run: Run, facts: Iterable[Fact], now: datetime) -> list[Spell]:
    """The run's, oldest first.

    Of its own cluster all of it, from the moment at which it is asked of AWS to the one at which it
    is gone, or the run is over. Of a cluster that others use as well its part of the workers, while
    its jobs run. Of nodes that come with a job all, from its submission to its end.
    """
    book = Book(facts)
    end = min(now, run.finished_at) if run.finished_at is not None else now
    found: list[Spell] = []
    for price, spell in _of_cluster(book, end, ended=run.finished_at is not None):
        if price.by_job or not run.owns_cluster:
            found.extend(_parts(run, price, spell))
        else:
            found.append(spell)
    return sorted(found, key=lambda spell: spell.since)


def of_cluster(facts: Iterable[Fact], now: datetime) -> list[Spell]:
    """All of a cluster, used or idle."""
    return [spell for _, spell in _of_cluster(Book(facts), now, ended=False)]


def _of_cluster(book: Book, end: datetime, *, ended: bool) -> Iterator[tuple[PriceInForce, Spell]]:
    """Each price with the time in which it was in force."""
    prices = book.of(PriceInForce)
    gone: dict[int | None, datetime] = {}
    over: list[ClusterDeleted | TryGone] = book.of(ClusterDeleted, TryGone)
    for fact in over:
        gone.setdefault(fact.generation, fact.at)
    for number, price in enumerate(prices):
        stop = gone.get(price.generation)
        following = next(
            (one.at for one in prices[number + 1 :] if one.generation == price.generation), None
        )
        until = min(moment for moment in (stop, following, end) if moment is not None)
        if until <= price.at:
            continue
        yield (
            price,
            Spell(
                price.at,
                until,
                price.hourly_usd,
                price.source,
                price.nodes,
                1.0,
                price.generation,
                ended or until < end or stop == until,
            ),
        )


def _parts(run: Run, price: PriceInForce, whole: Spell) -> Iterator[Spell]:
    """Those of the spell in which a job of the run has nodes.

    A run has one job at a time. Attempts whose times overlap, since an end came late or clocks
    differ, have the nodes once.
    """
    share = 1.0 if price.by_job else min(1.0, run.spec.job.nodes / max(1, price.workers))
    counted = whole.since
    for began, attempt in sorted(_begun(run, price), key=lambda one: one[0]):
        since, until = max(began, counted), min(attempt.ended_at or whole.until, whole.until)
        if since < until:
            ended = whole.ended or attempt.ended_at is not None
            yield replace(whole, since=since, until=until, share=share, ended=ended)
            counted = until


def _begun(run: Run, price: PriceInForce) -> Iterator[tuple[datetime, Attempt]]:
    """The attempts with the moment from which their nodes are paid for."""
    for attempt in run.attempts:
        began = attempt.submitted_at if price.by_job else attempt.started_at
        if began is not None:
            yield began, attempt


def usd_of(found: Iterable[Spell]) -> float | None:
    """Their sum; None if the price of one is not known."""
    amounts = [spell.usd for spell in found]
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def unpriced(found: Iterable[Spell]) -> str:
    """Why the sum is not known; '' where it is."""
    lacking = [spell for spell in found if spell.hourly_usd is None]
    if not lacking:
        return ""
    return (
        f"No price was known from {lacking[0].since:%Y-%m-%d %H:%M:%S} UTC on: the price list did "
        "not say. Give hourlyUsd in the cluster's spec."
    )


def hourly_now(run: Run, facts: Iterable[Fact]) -> float | None:
    """What an hour of the run costs while its nodes are there; None if no price is known."""
    price = Book(facts).last(PriceInForce)
    hourly = price.hourly_usd if price is not None else None
    if price is None or hourly is None:
        return run.hourly_usd
    whole = run.owns_cluster or price.by_job
    return hourly if whole else hourly * min(1.0, run.spec.job.nodes / max(1, price.workers))


def in_force(run: Run, found: Iterable[Spell]) -> list[Spell]:
    """The same, with the price at the run's submission where none was known later."""
    hourly = run.hourly_usd
    if hourly is None:
        return list(found)
    return [
        spell
        if spell.hourly_usd is not None
        else replace(spell, hourly_usd=hourly / spell.share, source="list")
        for spell in found
    ]


def within(found: Iterable[Spell], since: datetime) -> list[Spell]:
    """What of them lies after this moment."""
    return [replace(spell, since=max(spell.since, since)) for spell in found if spell.until > since]


def attempt_at(run: Run, moment: datetime) -> Attempt | None:
    """The last attempt that was on its way then."""
    begun = [one for one in run.attempts if (at := begin_of(one)) is not None and at <= moment]
    return begun[-1] if begun else None


def begin_of(attempt: Attempt) -> datetime | None:
    known = (attempt.fetching_since, attempt.submitted_at, attempt.started_at)
    return min((moment for moment in known if moment is not None), default=None)
