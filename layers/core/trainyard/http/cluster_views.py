"""A cluster, as the API shows it."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from trainyard.domain import records
from trainyard.domain.records import ClusterStatus
from trainyard.http.adoption_views import RELEASED, Adoption
from trainyard.http.change_views import CapacityTry, ClusterChange
from trainyard.http.views import Problem, View
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.people import Person
from trainyard_contracts.sharing import SharingSpec


class ClusterView(View):
    """A cluster."""

    name: str
    labels: dict[str, str] = Field(description="as they are now; spec has those it was made with")
    sharing: SharingSpec = Field(description="as it is now; spec has that it was made with")
    spec: ClusterSpec
    status: ClusterStatus | Literal["Releasing", "Released"] = Field(
        description="Releasing and Released are of clusters that others made"
    )
    generation: int
    created_at: datetime
    created_by: Person | None = Field(
        description="whose it is; of a run's own cluster the run says it; null: not known"
    )
    shared_with: list[str] = Field(description="patterns of ARNs of others who may change it")
    deleted_by: Person | None = Field(description="who asked for its deletion last")
    updated_at: datetime
    arn: str | None
    owner_run: str | None = Field(description="the run it was made for; null = stands on its own")
    ready_at: datetime | None
    last_used_at: datetime | None
    last_heartbeat_at: datetime | None
    delete_requested_at: datetime | None
    delete_forced: bool = Field(
        description="a person gave up what only it holds, and people's jobs on it"
    )
    problem: Problem | None
    change: ClusterChange | None = Field(
        description="the newest update, stop or start; null = there was none"
    )
    tries: list[CapacityTry] = Field(
        description="of a spec with capacity; the newest is the one that spec shows"
    )
    warnings: list[str] = Field(description="what could surprise who asked for it")
    adoption: Adoption | None = Field(
        description="of a cluster that others made; null = Trainyard made it"
    )

    @classmethod
    def of(cls, record: BaseModel, **other: Any) -> Self:
        assert isinstance(record, records.Cluster)
        status = RELEASED.get(record.status) if record.adoption else None
        return super().of(
            record,
            status=status or record.status,
            adoption=Adoption.of_record(record.adoption),
            problem=Problem.of(record.problem) if record.problem else None,
            sharing=record.shared_by,
            tries=[CapacityTry.of(one) for one in record.tries],
            change=ClusterChange.of(record.change) if record.change else None,
            **other,
        )
