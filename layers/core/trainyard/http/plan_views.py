"""What a dry run says."""

from typing import Any, Literal, Self

from pydantic import Field

from trainyard.app.runs.dry_run import DryRun
from trainyard.domain.variables import Variable
from trainyard.http.views import View
from trainyard.http.way_views import ListPriceView, WayView, usd


class PlannedVariable(View):
    """A variable that the run's program will find."""

    name: str
    value: str | None = Field(
        description="null where it is secret, or not known before the run is submitted"
    )
    source: Literal["job", "secret", "trainyard", "launcher"] = Field(
        description="who sets it: job.environment, job.secrets, Trainyard for every job, or the "
        "recipe's launcher for each process"
    )
    note: str = Field(description="what it will be, or what else to know; '' = nothing")

    @classmethod
    def of_variable(cls, one: Variable) -> Self:
        return cls(name=one.name, value=one.value, source=one.source, note=one.note)


class PlanView(View):
    """What would be sent, but is not: the backend's exact request, files with sizes, the price."""

    operation: str | None = None
    request: dict[str, Any] = Field(default_factory=dict)
    files: dict[str, int] = Field(default_factory=dict)
    batch_script: str | None = None
    hourly_usd: float | None = Field(
        default=None,
        description="of all nodes, or of the run's part of a cluster that is there; null where the "
        "price is not known",
    )
    warnings: list[str] = Field(default_factory=list)
    ways: list[WayView] = Field(
        default_factory=list,
        description="of a spec with capacity, in order; request and price are of the first",
    )
    backend: str | None = Field(default=None, description="null where nothing would be created")
    zones: list[str] = Field(
        default_factory=list, description="of its subnets, as far as they are known"
    )
    cannot: list[str] = Field(
        default_factory=list, description="what other backends do, and this one does not"
    )
    expected_usd: float | None = Field(
        default=None,
        description="of limits.expectedSeconds; null where that or the price is not known",
    )
    most_usd: float | None = Field(
        default=None, description="of limits.maxDurationSeconds, or the budget if that is less"
    )
    environment: list[PlannedVariable] = Field(
        default_factory=list,
        description="what a run's program will find, each name once; secrets by their names only",
    )

    list_price: ListPriceView | None = Field(
        default=None,
        description="what the first way would cost on AWS by a list that is shipped, where nodes "
        "are free (the local cloud) or their price is not known; null where hourlyUsd says it",
    )

    @classmethod
    def of_plan(cls, plan: DryRun) -> Self:
        listed = plan.list_price
        return cls(
            request=plan.request,
            operation=plan.operation,
            files=plan.files,
            batch_script=plan.batch_script,
            hourly_usd=plan.hourly_usd,
            warnings=plan.warnings,
            ways=[WayView.of_way(way, plan) for way in plan.ways],
            backend=plan.backend,
            zones=plan.zones,
            cannot=plan.cannot,
            expected_usd=usd(plan.hourly_usd, plan.expected_seconds),
            most_usd=usd(plan.hourly_usd, plan.longest_seconds, plan.budget_usd),
            environment=[PlannedVariable.of_variable(one) for one in plan.variables],
            list_price=None if listed is None else ListPriceView.of_plan(listed, plan),
        )
