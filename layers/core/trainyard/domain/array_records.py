"""What the table stores of an array of runs: which members have begun, and how they ended."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.records import Code, Record, RunStatus, Start
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.people import Person

ArrayStatus = Literal["Running", "Cancelling", "Succeeded", "Failed", "Cancelled"]
ARRAY_ENDS: frozenset[str] = frozenset({"Succeeded", "Failed", "Cancelled"})


class RunArray(Record):
    """Members are ordinary runs. Each is made when its turn comes, under an id that follows from
    the array's, so that making it twice makes one.
    """

    id: str
    spec: ArraySpec
    status: ArrayStatus = "Running"
    version: int = 0
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    created_by: Person | None = Field(default=None, description="null: of an older version")
    shared_with: list[str] = Field(
        default_factory=list, description="patterns of ARNs of others who may change it"
    )
    body_hash: str = ""
    cluster_name: str = Field(
        default="", description="that all members use; '': each has one of its own"
    )
    owns_cluster: bool = Field(default=False, description="the cluster was made for this array")
    code: Code | None = None
    start_from: Start | None = None
    data: dict[str, Code] = Field(default_factory=dict)
    begun: int = Field(default=0, description="members from 0 up to this have begun")
    active: list[int] = Field(default_factory=list, description="begun and not ended")
    succeeded: int = 0
    failed: list[int] = Field(default_factory=list)
    cancelled: list[int] = Field(default_factory=list)
    refused: list[int] = Field(
        default_factory=list, description="no run could be made of them; see reason"
    )
    reason: str = ""

    @property
    def name(self) -> str:
        return self.spec.run.name

    @property
    def over(self) -> bool:
        return self.status in ARRAY_ENDS

    @property
    def total(self) -> int:
        return self.spec.total

    @property
    def waiting(self) -> int:
        """Members that have not begun."""
        return self.total - self.begun


class Member(Record):
    """One member, as it is shown."""

    index: int
    parameters: dict[str, str]
    run_id: str | None = Field(default=None, description="null: it has not begun")
    status: RunStatus | None = None
    reason: str = ""
