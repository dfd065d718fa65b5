"""What the API answers to dry runs of many runs, field by field, in camelCase."""

from datetime import datetime
from typing import Self

from pydantic import Field

from trainyard.app.runs.dry_run_array import ArrayPlan
from trainyard.app.runs.dry_run_schedule import SchedulePlan
from trainyard.app.runs.plan_prices import Price
from trainyard.app.runs.refusals import Refusal
from trainyard.http.plan_views import PlanView
from trainyard.http.views import View


class PriceView(View):
    """What it would cost, as far as prices are known."""

    hourly_usd: float | None = Field(description="while it goes on; null where it is not known")
    expected_usd: float | None = Field(
        description="of limits.expectedSeconds; null where that or the price is not known"
    )
    most_usd: float | None = Field(
        description="of limits.maxDurationSeconds, or the budgets if that is less"
    )

    @classmethod
    def of_price(cls, price: Price) -> Self:
        return cls(
            hourly_usd=_cents(price.hourly),
            expected_usd=_cents(price.expected),
            most_usd=_cents(price.most),
        )


class RefusalView(View):
    """Something for which it would be refused."""

    run: str = Field(description="name of the run; '' of the whole")
    code: str = Field(description="as that of a problem")
    detail: str
    next_step: str

    @classmethod
    def of_refusal(cls, found: Refusal) -> Self:
        return cls(run=found.of, code=found.code, detail=found.detail, next_step=found.next_step)


class ArrayPlanView(View):
    """What an array would do and cost. Nothing of it is done."""

    total: int = Field(description="members in all")
    waves: list[int] = Field(
        description="members that train at once, wave by wave, if all take as long as each other"
    )
    first_name: str = Field(description="of the first member")
    first_parameters: dict[str, str] = Field(description="its values of the parameters")
    first: PlanView | None = Field(description="the first member alone; null: it would be refused")
    one: PriceView = Field(description="of one member")
    all: PriceView = Field(description="of all of them; hourlyUsd is of a wave")
    refused: list[RefusalView] = Field(
        description="what would be refused, and why; empty: all of it would be accepted"
    )

    @classmethod
    def of_array(cls, plan: ArrayPlan, refused: list[Refusal]) -> Self:
        return cls(
            total=plan.total,
            waves=plan.waves,
            first_name=plan.first.name,
            first_parameters=plan.first_parameters,
            first=None if plan.plan is None else PlanView.of_plan(plan.plan),
            one=PriceView.of_price(plan.one),
            all=PriceView.of_price(plan.all),
            refused=[RefusalView.of_refusal(found) for found in [*refused, *plan.refused]],
        )


class PlannedTime(View):
    """A time at which a schedule would be due."""

    at: datetime = Field(description="in UTC")
    local: str = Field(description="the same in the schedule's zone, with its offset at that time")


class PlannedRun(View):
    """A run of each time."""

    name: str
    plan: PlanView | None = Field(
        description="alone, without what it takes of runs of the same time; null: it would be "
        "refused"
    )


class SchedulePlanView(View):
    """When a schedule would submit what. Nothing of it is done."""

    timezone: str
    next_times: list[PlannedTime] = Field(description="the first five")
    runs: list[PlannedRun] = Field(description="in the order of their submission")
    one: PriceView = Field(description="of one time; hourlyUsd is of its dearest run")
    all: PriceView = Field(description="of the times of nextTimes")
    refused: list[RefusalView] = Field(
        description="what would be refused, and why; empty: all of it would be accepted"
    )

    @classmethod
    def of_schedule(cls, plan: SchedulePlan, timezone: str, refused: list[Refusal]) -> Self:
        return cls(
            timezone=timezone,
            next_times=[PlannedTime(at=at, local=local.isoformat()) for at, local in plan.times],
            runs=[
                PlannedRun(name=name, plan=None if found is None else PlanView.of_plan(found))
                for name, found in plan.runs
            ],
            one=PriceView.of_price(plan.one),
            all=PriceView.of_price(plan.all),
            refused=[RefusalView.of_refusal(found) for found in [*refused, *plan.refused]],
        )


def _cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)
