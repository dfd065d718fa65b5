"""What the API answers of arrays of runs, field by field, in camelCase."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field

from trainyard.domain import array_records as records
from trainyard.domain.array_records import ArrayStatus
from trainyard.domain.arrays import summary
from trainyard.domain.records import RunStatus
from trainyard.http.views import View
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.people import Person


class ArraySummary(View):
    """An array in a list: how far its members are, without its spec."""

    id: str
    name: str = Field(description="of its spec's run; each member's ends with its number")
    status: ArrayStatus
    created_at: datetime
    created_by: Person | None = Field(description="null: of an older version")
    shared_with: list[str] = Field(description="patterns of ARNs of others who may change it")
    updated_at: datetime
    ended_at: datetime | None
    total: int = Field(description="members in all")
    max_parallel: int
    not_begun: int = Field(description="members whose turn has not come")
    active: int
    succeeded: int
    failed: list[int] = Field(description="the numbers of these members")
    cancelled: list[int] = Field(description="the numbers of these members")
    refused: list[int] = Field(description="members of which no run could be made; see reason")
    cluster_name: str = Field(description="of all members; '': each has one of its own")
    owns_cluster: bool = Field(description="the cluster was made for this array")
    reason: str = Field(description="where the array is, or how it ended, in words")

    @classmethod
    def of(cls, record: BaseModel, **other: object) -> Self:
        assert isinstance(record, records.RunArray)
        counted = {
            "name": record.spec.run.name,
            "total": record.total,
            "max_parallel": record.spec.max_parallel,
            "not_begun": record.waiting,
            "active": len(record.active),
            "reason": record.reason or summary(record),
        }
        return super().of(record, **{**counted, **other})


class ArrayView(ArraySummary):
    """An array of runs."""

    spec: ArraySpec


class ArrayPage(View):
    """One page of arrays, newest first."""

    arrays: list[ArraySummary]
    next_token: str | None


class ArrayMemberView(View):
    """One member of an array."""

    index: int
    parameters: dict[str, str]
    run_id: str | None = Field(description="null: it has not begun")
    status: RunStatus | None
    reason: str


class ArrayMemberPage(View):
    """One page of an array's members, by their numbers."""

    members: list[ArrayMemberView]
    next_token: str | None
