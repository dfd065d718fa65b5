"""What the API answers of budgets that runs share, field by field, in camelCase."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, Self

from pydantic import Field

from trainyard.domain import team_budgets
from trainyard.domain.costs import HOUR
from trainyard.domain.team_budget_records import TeamAccount, TeamBudget
from trainyard.http.views import View
from trainyard_contracts.people import Person


class SharedBudgetView(View):
    """A budget that runs share; its sums are those of the sweep's last look, in USD."""

    name: str
    label: str | None = Field(description="KEY=VALUE that its runs carry; null: a cluster's")
    cluster: str | None = Field(description="whose budget it is; null: a label's")
    max_usd: float = Field(description="for one period")
    per: Literal["month", "total"] = Field(description="month: of UTC, each anew")
    warn_at: list[float] = Field(description="parts of maxUsd at whose reach people are told")
    tail_seconds: int = Field(description="whose price is held back for the end of each run")
    status: Literal["active", "used-up", "deleted"] = Field(
        description="used-up: its runs are stopped and none begins, until its period ends or "
        "maxUsd is raised"
    )
    period: str = Field(description="the one of now: such as 2026-11; or total")
    ends_at: datetime | None = Field(description="of the period; null: never")
    at: datetime | None = Field(description="up to when is counted; null: the sweep has to look")
    spent_usd: float = Field(description="in this period")
    held_back_usd: float = Field(description="for the end of what goes on")
    hourly_usd: float = Field(description="what an hour costs now")
    stops_at: datetime | None = Field(
        description="when its runs are stopped if all goes on as it does; null: nothing is spent "
        "now, or they are"
    )
    forecast_usd: float | None = Field(
        description="at the period's end if all goes on as it does, the limit aside; null: the "
        "period has no end"
    )
    unpriced: int = Field(description="things that count and whose price is not known")
    created_at: datetime
    created_by: Person | None = Field(description="who set it first")
    updated_at: datetime

    @classmethod
    def of_budget(cls, budget: TeamBudget, now: datetime) -> Self:
        spec = budget.spec
        period, end = team_budgets.period_of(spec, now), team_budgets.end_of(spec, now)
        account = team_budgets.account_of(budget, now)
        seen = account or TeamAccount(period=period, at=now)
        up = team_budgets.used_up(budget, now)
        hours = (end - seen.at).total_seconds() / HOUR if end else 0.0
        return cls.of(
            budget,
            label=spec.label,
            cluster=spec.cluster,
            max_usd=spec.max_usd,
            per=spec.per,
            warn_at=spec.warn_at,
            tail_seconds=spec.tail_seconds,
            status="deleted" if budget.status == "Deleted" else "used-up" if up else "active",
            period=period,
            ends_at=end,
            at=account.at if account else None,
            spent_usd=seen.spent_usd,
            held_back_usd=seen.tail_usd,
            hourly_usd=seen.hourly_usd,
            stops_at=None if up else _stops_at(budget, seen),
            forecast_usd=seen.spent_usd + seen.hourly_usd * hours if end else None,
            unpriced=seen.unpriced,
        )


def _stops_at(budget: TeamBudget, seen: TeamAccount) -> datetime | None:
    """None also where that is after the period."""
    if seen.hourly_usd <= 0:
        return None
    left = budget.spec.max_usd - seen.spent_usd - seen.tail_usd
    hours = max(0.0, left / seen.hourly_usd)
    end = team_budgets.end_of(budget.spec, seen.at)
    if hours * HOUR > 366 * 86400:
        return None
    at = seen.at + timedelta(hours=hours)
    return None if end is not None and at >= end else at


class SharedBudgetPage(View):
    """One page of budgets, newest first."""

    budgets: list[SharedBudgetView] = Field(description="one page of budgets, newest first")
    next_token: str | None
