"""What nodes would cost, and the ways to get them."""

from datetime import date
from typing import Any, Self

from pydantic import Field

from trainyard.app.runs.dry_run import DryRun, PlannedWay
from trainyard.domain.list_prices import ListPrice
from trainyard.http.views import View


class WayView(View):
    """A way in which the cluster would be tried."""

    way: str = Field(description="such as 'ml.p5.48xlarge, spot'")
    backend: str = Field(description="in which it is made")
    hourly_usd: float | None = Field(description="null where the price list does not say")
    expected_usd: float | None = Field(
        description="of limits.expectedSeconds; null where that or the price is not known"
    )
    most_usd: float | None = Field(
        description="of limits.maxDurationSeconds, or the budget if that is less"
    )
    operation: str
    request: dict[str, Any]
    files: dict[str, int] = Field(
        description="sizes in bytes of what would be uploaded for it, by the objects' names"
    )
    zones: list[str] = Field(description="of its subnets, as far as they are known")
    cannot: list[str] = Field(description="what other backends do, and this one does not")
    warnings: list[str]

    @classmethod
    def of_way(cls, way: PlannedWay, plan: DryRun) -> Self:
        return cls(
            way=way.way,
            backend=way.backend,
            hourly_usd=way.hourly_usd,
            expected_usd=usd(way.hourly_usd, plan.expected_seconds),
            most_usd=usd(way.hourly_usd, plan.longest_seconds, plan.budget_usd),
            operation=way.operation,
            request=way.request,
            files=way.files,
            zones=way.zones,
            cannot=way.cannot,
            warnings=way.warnings,
        )


def usd(hourly: float | None, seconds: int | None, most: float | None = None) -> float | None:
    if hourly is None or seconds is None:
        return None
    usd = hourly * seconds / 3600
    return round(usd if most is None else min(usd, most), 2)


class ListPriceView(View):
    """What it would cost on AWS, where the deployment's own price list does not say it."""

    hourly_usd: float | None = Field(description="of all nodes; null where it is not known")
    expected_usd: float | None = Field(
        description="of limits.expectedSeconds; null where that or the price is not known"
    )
    most_usd: float | None = Field(
        description="of limits.maxDurationSeconds, or the budget if that is less"
    )
    as_of: date | None = Field(description="the day of the oldest price in it")
    words: str = Field(description="what it is, or why it is not known")

    @classmethod
    def of_plan(cls, found: ListPrice, plan: DryRun) -> Self:
        return cls(
            hourly_usd=found.hourly_usd,
            expected_usd=usd(found.hourly_usd, plan.expected_seconds),
            most_usd=usd(found.hourly_usd, plan.longest_seconds, plan.budget_usd),
            as_of=found.on,
            words=found.words,
        )
