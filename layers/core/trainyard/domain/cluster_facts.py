"""Facts of clusters and their nodes that the control plane itself makes."""

from pydantic import Field

from trainyard_contracts.events import Fact


class ClusterFailed(Fact):
    """The making of the cluster ended badly, or it is lost for good."""

    cluster_name: str = ""
    generation: int | None = None
    reason: str = ""


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
