"""Runs in a list."""

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, Field

from trainyard.domain import records
from trainyard.domain.records import RunStatus
from trainyard.http.export_views import Export
from trainyard.http.run_views import Outcome
from trainyard.http.views import Problem, View
from trainyard_contracts.people import Person


class RunSummary(View):
    """A run in a list: where it is and why, without its spec, its files and its attempts."""

    id: str
    name: str
    labels: dict[str, str]
    status: RunStatus
    outcome: Outcome | None
    reason: str
    problem: Problem | None
    created_at: datetime
    created_by: Person | None
    updated_at: datetime
    opened_at: datetime | None
    finished_at: datetime | None
    cluster_name: str
    owns_cluster: bool
    cluster_deleted: bool
    attempt_count: int = Field(description="attempts so far, of all lives")
    export: Export | None
    cost_usd: float | None = Field(
        description="what all its lives cost, set at its end; null before, or not known"
    )

    @classmethod
    def of(cls, record: BaseModel, *, uri: str = "", **other: Any) -> Self:
        """`uri`: where it is exported to."""
        assert isinstance(record, records.Run)
        return super().of(
            record,
            attempt_count=record.attempt.number if record.attempt else 0,
            problem=Problem.of_run(record),
            export=Export.of(record.export, uri=uri) if record.export else None,
            cost_usd=record.cost.usd if record.terminal and record.cost else None,
            **other,
        )


class RunPage(View):
    runs: list[RunSummary]
    next_token: str | None = None
