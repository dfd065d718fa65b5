"""The tries to get a cluster, and its changes."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain import records
from trainyard.http.views import View
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.people import Person


class CapacityTry(View):
    """One way in which a cluster was tried."""

    number: int = Field(description="from 1")
    way: str = Field(description="such as 'ml.p5.48xlarge, spot'")
    hourly_usd: float | None = Field(
        description="of all its nodes; null where the price list does not say"
    )
    began_at: datetime
    ended_at: datetime | None
    reason: str = Field(description="why it ended, in AWS's words")


class ClusterChange(View):
    """What becomes, or became, of a cluster that is there."""

    state: records.ChangeState
    spec: ClusterSpec | None = Field(
        description="what is wanted; null: only the fleet is stopped or started"
    )
    fleet: Literal["running", "stopped"] = Field(description="what becomes of the fleet in the end")
    asked_at: datetime
    asked_by: Person | None
    ended_at: datetime | None
    forced: bool = Field(description="a person gave up people's jobs")
    stops_fleet: bool = Field(description="the change needs a fleet that is stopped meanwhile")
    outcome: records.ChangeState | None = Field(
        description="known while the fleet is started again"
    )
    reason: str = Field(description="what it waits for, or why it ended so, in AWS's words")
