"""What runs that do not exist yet would cost together, as far as their prices are known; in USD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.app.runs.dry_run import DryRun


@dataclass(frozen=True)
class Price:
    """`expected` is of limits.expectedSeconds, `most` of the longest duration or the budgets."""

    hourly: float | None = None
    expected: float | None = None
    most: float | None = None


def of_run(plan: DryRun | None, part: float = 1.0) -> Price:
    """Of one run, which pays for a part of its cluster; unknown of one that would be refused."""
    if plan is None or plan.hourly_usd is None:
        return Price()
    hourly = plan.hourly_usd * part
    most = _of(hourly, plan.longest_seconds)
    if plan.budget_usd is not None:
        most = plan.budget_usd if most is None else min(most, plan.budget_usd)
    return Price(hourly, _of(hourly, plan.expected_seconds), most)


def times(price: Price, count: int, at_once: int) -> Price:
    """Of so many such runs, of which some go on at once."""
    return Price(
        _times(price.hourly, at_once), _times(price.expected, count), _times(price.most, count)
    )


def of_one_cluster(plan: DryRun | None, waves: int, members: int) -> Price:
    """Of a cluster that is there while wave after wave of members trains."""
    whole = of_run(plan)
    if plan is None or whole.hourly is None:
        return Price()
    most = _times(_of(whole.hourly, plan.longest_seconds), waves)
    budgets = _times(plan.budget_usd, members)
    if budgets is not None:
        most = budgets if most is None else min(most, budgets)
    return Price(whole.hourly, _times(whole.expected, waves), most)


def total(prices: Sequence[Price]) -> Price:
    """Of all of them, one after the other; unknown where one is."""
    hours = [one.hourly for one in prices]
    highest = None if None in hours else max(hour for hour in hours if hour is not None)
    return Price(
        highest, _sum([one.expected for one in prices]), _sum([one.most for one in prices])
    )


def _of(hourly: float, seconds: int | None) -> float | None:
    return None if seconds is None else hourly * seconds / 3600


def _times(usd: float | None, count: int) -> float | None:
    return None if usd is None else usd * count


def _sum(given: Sequence[float | None]) -> float | None:
    known = [usd for usd in given if usd is not None]
    return sum(known) if len(known) == len(given) else None
