"""A node of a cluster."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from trainyard.domain.record import Record
from trainyard.domain.states import NodeState


class ClusterNode(Record):
    """A node as the API shows it: backend state, Slurm state and the newest sample joined."""

    instance_id: str
    group: str
    role: Literal["controller", "worker", "login"]
    instance_type: str
    status: NodeState
    message: str = ""
    name: str | None = Field(default=None, description="Slurm node name ip-a-b-c-d")
    address: str | None = None
    launched_at: datetime | None = None
    agent: str = "unknown"
    scheduler: str = "unknown"
    sample: dict[str, Any] | None = None
