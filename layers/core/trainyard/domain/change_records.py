"""The tries to get a cluster, and its changes."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.record import Record
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.people import Person


class CapacityTry(Record):
    """One way in which a cluster was tried; the newest one's result is the cluster itself."""

    number: int = Field(description="from 1; after the last way the first one comes again")
    way: str = Field(description="such as 'ml.p5.48xlarge, spot'")
    hourly_usd: float | None = Field(
        default=None, description="of all its nodes; null where the price list does not say"
    )
    began_at: datetime = Field(description="or begins, where it waits for the next round")
    ended_at: datetime | None = None
    reason: str = Field(default="", description="why it ended, in AWS's words")


ChangeState = Literal[
    "waiting", "begun", "stopping", "sending", "changing", "starting",
    "done", "refused", "rolled-back", "failed", "withdrawn",
]  # fmt: skip
#: After these nothing more is done.
CHANGE_ENDS: frozenset[str] = frozenset({"done", "refused", "rolled-back", "failed", "withdrawn"})


class ClusterChange(Record):
    """What becomes of a cluster that is there: another spec, or its fleet stopped or started.

    The sweep alone takes it from state to state.
    """

    state: ChangeState = "waiting"
    spec: ClusterSpec | None = Field(
        default=None, description="what is wanted; null: only the fleet is stopped or started"
    )
    fleet: Literal["running", "stopped"] = Field(
        default="running", description="what becomes of the fleet in the end"
    )
    was: Literal["Ready", "Stopped"] = Field(
        default="Ready", description="the cluster's status before"
    )
    asked_at: datetime
    ended_at: datetime | None = None
    forced: bool = Field(default=False, description="a person gave up people's jobs")
    stops_fleet: bool = Field(
        default=False, description="the change needs a fleet that is stopped meanwhile"
    )
    sent_at: datetime | None = Field(
        default=None, description="when the backend was first asked for it, before the call"
    )
    before: str = Field(
        default="", description="the backend's word for when the cluster changed last, before this"
    )
    outcome: ChangeState | None = Field(
        default=None, description="known while the fleet is started again"
    )
    reason: str = Field(default="", description="what it waits for, or why it ended so")
    asked_by: Person | None = None

    @property
    def over(self) -> bool:
        return self.state in CHANGE_ENDS
