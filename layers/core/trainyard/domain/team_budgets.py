"""Budgets that several runs share: their periods, what is left, and when people hear of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from trainyard.domain.costs import HOUR
from trainyard.domain.decisions import Draft
from trainyard.domain.notices import MESSAGE_CHARACTERS, Notice
from trainyard.domain.order_facts import TeamBudgetSpent
from trainyard.domain.problems import problem
from trainyard.domain.team_budget_records import Counted, TeamAccount, TeamBudget
from trainyard.domain.words import counted
from trainyard_contracts.team_budgets import TeamBudgetSpec

#: A budget is judged once a minute: it ends when what the next minute costs would be too much.
LOOK_SECONDS = 60
#: So many runs that are over are named in an account; the sum of older ones is kept.
MOST_NAMED = 1000
_TOTAL = "total"


def period_of(spec: TeamBudgetSpec, now: datetime) -> str:
    return _TOTAL if spec.per == "total" else f"{now.astimezone(timezone.utc):%Y-%m}"


def begin_of(spec: TeamBudgetSpec, now: datetime) -> datetime:
    """The first moment whose costs count."""
    if spec.per == "total":
        return datetime.fromtimestamp(0, timezone.utc)
    utc = now.astimezone(timezone.utc)
    return datetime(utc.year, utc.month, 1, tzinfo=timezone.utc)


def end_of(spec: TeamBudgetSpec, now: datetime) -> datetime | None:
    """The first moment of the next period; None of one that is for ever."""
    if spec.per == "total":
        return None
    return (begin_of(spec, now) + timedelta(days=32)).replace(day=1)


def account_of(budget: TeamBudget, now: datetime) -> TeamAccount | None:
    """The account of the period in which this moment is, if there is one yet."""
    account = budget.account
    same = account is not None and account.period == period_of(budget.spec, now)
    return account if same else None


def used_up(budget: TeamBudget, now: datetime) -> bool:
    """No run that counts may go on or begin: until the period ends or maxUsd is raised."""
    account = account_of(budget, now)
    if account is None or account.spent_at_max is None:
        return False
    return budget.spec.max_usd <= account.spent_at_max


def left(budget: TeamBudget, now: datetime) -> float:
    """What may be spent beside what goes on, in USD."""
    account = account_of(budget, now)
    if account is None:
        return budget.spec.max_usd
    return budget.spec.max_usd - account.spent_usd - account.tail_usd


def refusal_of(budget: TeamBudget, now: datetime) -> str:
    """Why nothing may begin, and until when."""
    end = end_of(budget.spec, now)
    until = f"until {end:%Y-%m-%d %H:%M} UTC" if end else "for good"
    return (
        f"The budget '{budget.name}' of {budget.spec.max_usd:g} USD for {budget.whose} is used up "
        f"{until}."
    )


def remedy_of(budget: TeamBudget) -> str:
    return (
        "Wait until its period ends, or ask an admin to raise it: trainyard budget set "
        f"{budget.name} --max-usd USD."
    )


def closed(runs: Mapping[str, Counted]) -> tuple[dict[str, Counted], float]:
    """The runs that stay named, and the sum of those that are not."""
    over = sorted(run_id for run_id, one in runs.items() if not one.going)
    off = set(over[: max(0, len(over) - MOST_NAMED)])
    kept = {run_id: one for run_id, one in runs.items() if run_id not in off}
    return kept, sum(runs[run_id].usd for run_id in off)


def judged(budget: TeamBudget, account: TeamAccount) -> tuple[TeamAccount, list[Notice]]:
    """The account after it was judged, and what people hear of it."""
    notices = [_warning(budget, account, part) for part in _new_parts(budget, account)]
    spec, spent = budget.spec, account.spent_usd
    warned = sorted(part for part in spec.warn_at if spent >= part * spec.max_usd)
    account = account.changed(warned=warned)
    if account.unpriced and not account.told_unpriced:
        account = account.changed(told_unpriced=True)
        notices.append(_unpriced(budget, account))
    if account.spent_at_max is not None and spec.max_usd > account.spent_at_max:
        account = account.changed(spent_at_max=None)
    soon = spent + account.tail_usd + account.hourly_usd * LOOK_SECONDS / HOUR
    if account.spent_at_max is None and soon >= spec.max_usd:
        account = account.changed(spent_at_max=spec.max_usd)
        notices.append(_exhausted(budget, account))
    return account, notices


def _new_parts(budget: TeamBudget, account: TeamAccount) -> list[float]:
    reached = [
        part
        for part in sorted(set(budget.spec.warn_at))
        if account.spent_usd >= part * budget.spec.max_usd and part not in account.warned
    ]
    return reached[-1:]  # of several at once the highest says all


def _warning(budget: TeamBudget, account: TeamAccount, part: float) -> Notice:
    words = (
        f"{account.spent_usd:.2f} of {budget.spec.max_usd:g} USD of budget '{budget.name}' "
        f"({budget.whose}, {account.period}) are spent; {account.tail_usd:.2f} USD are held back "
        "for the end of what goes on."
    )
    return _notice(budget, account, f"warned-{part:g}", words)


def _unpriced(budget: TeamBudget, account: TeamAccount) -> Notice:
    words = (
        f"{counted(account.unpriced, 'thing')} that count for budget '{budget.name}' "
        f"({budget.whose}) have no known price, and what they cost is not in its sum. Give "
        "hourlyUsd in the cluster's spec."
    )
    return _notice(budget, account, "unpriced", words)


def _exhausted(budget: TeamBudget, account: TeamAccount) -> Notice:
    words = f"{spent_words(budget, account)} Its runs are stopped and saved; no other begins."
    return _notice(budget, account, f"exhausted-{budget.spec.max_usd:g}", words)


def spent_words(budget: TeamBudget, account: TeamAccount) -> str:
    return (
        f"The budget '{budget.name}' of {budget.spec.max_usd:g} USD for {budget.whose} "
        f"({account.period}) is used up: {account.spent_usd:.2f} USD are spent, and "
        f"{account.tail_usd:.2f} USD are held back for saving and teardown."
    )


def _notice(budget: TeamBudget, account: TeamAccount, what: str, words: str) -> Notice:
    return Notice(
        id=f"budget/{budget.name}/{budget.revision}/{account.period}/{what}",
        at=account.at,
        type="budget.exhausted" if what.startswith("exhausted") else "budget.warned",
        message=words[:MESSAGE_CHARACTERS],
        budget_name=budget.name,
    )


def keep_shared(draft: Draft) -> None:
    """Stop the run's life whose mark says that a budget of several runs is used up."""
    mark = next(
        (fact for fact in draft.book.of(TeamBudgetSpent) if fact.life == draft.run.life), None
    )
    if mark is None:
        return
    draft.stop("failed", mark.reason, problem("budget-exhausted", mark.reason))
    draft.note(
        f"budget-{mark.budget}",
        "BudgetExhausted",
        f"{mark.reason} Stopping the job and exporting.",
    )
