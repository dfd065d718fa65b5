"""Clusters in a list."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from trainyard.domain import records
from trainyard.domain.records import ClusterStatus
from trainyard.http.adoption_views import RELEASED
from trainyard.http.views import Problem, View
from trainyard_contracts.people import Person


class GroupSummary(View):
    """Nodes of one kind, in a list of clusters."""

    name: str
    role: Literal["controller", "worker", "login"]
    instance_type: str
    count: int = Field(description="for jobs, or people; of a queue the most there may be")
    spares: int


class ClusterSummary(View):
    """A cluster in a list: what it is and how it is, without its spec."""

    name: str
    labels: dict[str, str]
    status: ClusterStatus | Literal["Releasing", "Released"]
    backend: str
    groups: list[GroupSummary]
    created_at: datetime
    created_by: Person | None
    updated_at: datetime
    arn: str | None
    owner_run: str | None = Field(description="the run it was made for; null = stands on its own")
    ready_at: datetime | None
    last_used_at: datetime | None
    delete_requested_at: datetime | None
    problem: Problem | None
    changing: records.ChangeState | None = Field(
        description="how far an update, stop or start is that goes on now; null = there is none"
    )

    @classmethod
    def of(cls, record: BaseModel, **other: Any) -> Self:
        assert isinstance(record, records.Cluster)
        change = record.change
        released = RELEASED.get(record.status) if record.adoption else None
        return super().of(
            record,
            status=released or record.status,
            groups=[GroupSummary.of(group) for group in record.spec.groups()],
            problem=Problem.of(record.problem) if record.problem else None,
            changing=change.state if change is not None and not change.over else None,
            **other,
        )


class ClusterPage(View):
    clusters: list[ClusterSummary]
    next_token: str | None = None
