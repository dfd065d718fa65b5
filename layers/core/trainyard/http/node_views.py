"""The nodes of a cluster, and what became of an order to several."""

import json
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field

from trainyard.domain import records
from trainyard.domain.states import NodeState
from trainyard.http.views import View

#: A Lambda function answers with 6 MB at most, in which an answer's text is escaped once more.
_MOST_SAMPLE_BYTES = 2 * 1024 * 1024


class ClusterNode(View):
    """A node: backend state, Slurm state and the newest sample joined."""

    instance_id: str
    group: str
    role: Literal["controller", "worker", "login"]
    instance_type: str
    status: str = Field(description=f"backend's state: {', '.join(NodeState)}")
    message: str
    name: str | None = Field(description="Slurm node name ip-a-b-c-d")
    address: str | None
    launched_at: datetime | None
    agent: str
    scheduler: str
    sample: dict[str, Any] | None


class NodeList(View):
    nodes: list[ClusterNode]
    next_token: str | None
    samples_left_out: bool = Field(
        default=False, description="the nodes are too many to show each one's sample too"
    )

    @classmethod
    def of_nodes(cls, nodes: list[records.ClusterNode], next_token: str | None = None) -> Self:
        """With the nodes' samples, as long as a Lambda function's answer holds them."""
        if sum(len(json.dumps(node.sample)) for node in nodes if node.sample) <= _MOST_SAMPLE_BYTES:
            shown = [ClusterNode.of(node) for node in nodes]
            return cls.made(nodes=shown, next_token=next_token)
        return cls.made(
            nodes=[ClusterNode.of(node, sample=None) for node in nodes],
            next_token=next_token,
            samples_left_out=True,
        )


class BatchView(View):
    """What the backend accepted; `failed` gives its reason by instance id."""

    successful: list[str]
    failed: dict[str, str]
