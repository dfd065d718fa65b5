"""The budget of a run's life: what is spent, what is held back, and when the run must stop."""

from __future__ import annotations

from trainyard.domain.budget_accounts import Account, account
from trainyard.domain.capacity_facts import PriceInForce
from trainyard.domain.decisions import Draft
from trainyard.domain.problems import problem
from trainyard.domain.records import Run


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
