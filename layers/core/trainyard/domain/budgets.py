"""The budget of a run's life: what is spent, what is held back, and when the run must stop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainyard.domain import costs
from trainyard.domain.book import Book
from trainyard.domain.cluster_facts import PriceInForce
from trainyard.domain.costs import HOUR
from trainyard.domain.decisions import Draft
from trainyard.domain.problems import problem
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


def keep(draft: Draft) -> None:
    """Warn, and stop the run while the price of its end is still there."""
    budget = draft.run.spec.budget
    if budget is None:
        return
    facts = draft.book.all()
    found = account(draft.run, facts, draft.now)
    if found is None:
        if draft.book.last(PriceInForce) is not None:
            _stop_unpriced(draft)
        return
    for part in sorted(budget.warn_at):
        _warn(draft, found, part)
    at = found.moment(draft.now, found.limit - found.tail)
    if at is not None and at <= draft.now:
        reason = (
            f"The budget of {found.limit:g} USD is used up: {found.spent:.2f} USD are spent, and "
            f"{found.tail:.2f} USD are held back for saving and teardown."
        )
        draft.stop("failed", reason, problem("budget-exhausted", reason))
        draft.note("budget", "BudgetExhausted", f"{reason} Stopping the job and exporting.")
    elif at is not None:
        draft.by(at)


def warned(run: Run) -> list[float]:
    """The parts of this life's budget of whose reach people were warned."""
    budget = run.spec.budget
    parts = sorted(budget.warn_at) if budget else []
    return [part for part in parts if _warning(run, part) in run.handled_facts]


def _warning(run: Run, part: float) -> str:
    return f"budget-{run.life}-{part:g}"


def _stop_unpriced(draft: Draft) -> None:
    reason = "The run has a budget, and no price is known for the instances that it got."
    draft.stop("failed", reason, problem("budget-exhausted", reason))
    draft.note("budget", "BudgetExhausted", f"{reason} Stopping the job and exporting.")


def _warn(draft: Draft, found: Account, part: float) -> None:
    usd = part * found.limit
    if found.spent >= usd:
        if draft.handle_once(_warning(draft.run, part)):
            words = f"{found.spent:.2f} of {found.limit:g} USD of the budget are spent"
            message = f"{words}; the run is stopped at {found.limit - found.tail:.2f} USD."
            draft.note(f"budget-{part:g}", "BudgetWarned", message, kind="status", part=part)
        return
    at = found.moment(draft.now, usd)
    if at is not None:
        draft.by(at)
