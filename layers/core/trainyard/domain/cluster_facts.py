"""Facts of clusters and their nodes that the control plane itself makes."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard_contracts.events import Fact


class ClusterFailed(Fact):
    """The making of the cluster ended badly, or it is lost for good."""

    cluster_name: str = ""
    generation: int | None = None
    reason: str = ""


class CapacityTried(Fact):
    """The cluster is asked of AWS in one of the ways that its spec names."""

    number: int = 1
    way: str = ""
    hourly_usd: float | None = None
    begins_at: datetime | None = None


class CapacityRefused(Fact):
    """AWS had no capacity in this way; the next one is tried when what was made is gone."""

    number: int = 1
    way: str = ""
    reason: str = ""


class PriceInForce(Fact):
    """What an hour of the cluster's nodes costs from this moment on, for all that anybody knows."""

    cluster_name: str = ""
    generation: int | None = None
    hourly_usd: float | None = None
    #: list: AWS's price list, as it was then. given: a person's word in the spec.
    source: Literal["list", "given", ""] = ""
    #: Of nodes that a job brings with it, and takes away.
    by_job: bool = False
    nodes: int = 1
    workers: int = 1


class TryGone(Fact):
    """What was made of a try for capacity is gone, and costs nothing any more."""

    cluster_name: str = ""
    generation: int | None = None


class ClusterDeleted(Fact):
    """AWS has the cluster no more."""

    cluster_name: str = ""
    generation: int | None = None


class ArchiveEnded(Fact):
    """The cluster's own filesystem was exported to its archive before a deletion, or was not."""

    verified: bool = False
    number: int = 1
    generation: int | None = None
    words: str = ""


class ClusterLost(Fact):
    """The controller is silent, and AWS says that it is gone, too."""

    generation: int | None = None
    reason: str = ""


class ClusterState(Fact):
    """The backend's word for the cluster changed."""

    status: str = ""
    failure_message: str = ""


class ClusterEvent(Fact):
    """The backend tells something of the cluster that is no mere information."""

    description: str = ""
    level: str = ""
    instance_id: str = ""
    event_id: str = ""
    failure_message: str = ""
    #: Those whose nodes it is about; [] where the backend does not say.
    partitions: list[str] = Field(default_factory=list)


class LifecycleFailed(ClusterEvent):
    """A lifecycle script failed on a node."""


class NodeHealth(Fact):
    """The backend's health agent judged an instance; it may reboot or replace it."""

    instance_id: str = ""
    status: str = ""
    reason: str = ""
    repair_action: str = ""


class IdleAndSilent(Fact):
    """The sweep first found the cluster idle while its controller was silent."""
