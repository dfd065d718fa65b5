"""What a run's budget has left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainyard.domain import costs
from trainyard.domain.book import Book
from trainyard.domain.costs import HOUR
from trainyard.domain.records import Run
from trainyard_contracts.events import ExportFinished, Fact

#: A budget below so many times the tail's price is refused: it would hardly train.
LEAST_TAILS = 2
#: An export of the run's own that took longer than the tail counts for so much.
MEASURED_TIMES = 1.5


def least_usd(hourly_usd: float, tail_seconds: int) -> float:
    """The smallest budget that is accepted, in whole cents."""
    return -(-LEAST_TAILS * hourly_usd * tail_seconds * 100 // HOUR) / 100


@dataclass(frozen=True)
class Account:
    """What a life of the run has spent, and may; all in USD."""

    spent: float
    #: What an hour costs now.
    hourly: float
    tail: float
    limit: float

    @property
    def left(self) -> float:
        """What may still be spent before the run is stopped."""
        return self.limit - self.tail - self.spent

    def moment(self, now: datetime, usd: float) -> datetime | None:
        """When so much is spent if all goes on as it does; None if nothing is being spent."""
        if self.hourly <= 0:
            return None
        seconds = max(0.0, (usd - self.spent) / self.hourly * HOUR)
        return now + timedelta(seconds=min(seconds, 366 * 86400))


def account(run: Run, facts: list[Fact], now: datetime) -> Account | None:
    """None while no price is known, or there is no budget."""
    budget = run.spec.budget
    hourly = costs.hourly_now(run, facts)
    if budget is None or hourly is None:
        return None
    opened = run.opened_at or run.created_at
    found = costs.within(costs.in_force(run, costs.spells(run, facts, now)), opened)
    spent = sum(spell.usd or 0.0 for spell in found)
    going = bool(found) and not found[-1].ended
    tail = hourly * tail_seconds(run, facts, budget.tail_seconds) / HOUR
    return Account(spent, hourly if going else 0.0, tail, budget.max_usd)


def tail_seconds(run: Run, facts: list[Fact], asked: int) -> float:
    """For how long it is held back: as asked for, or longer if an export of the run's took long."""
    export = run.export
    if export is None or export.final:
        return asked
    ends = [fact for fact in Book(facts).of(ExportFinished) if fact.export_id == export.id]
    took = max(((fact.at - export.requested_at).total_seconds() for fact in ends), default=0.0)
    return max(float(asked), took * MEASURED_TIMES)
