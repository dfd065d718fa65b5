"""ParallelCluster's instances in the port's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from trainyard.backends.parallelcluster.answers import HeadNodeInstance, Instance
from trainyard.backends.parallelcluster.states import node_state
from trainyard.domain.records import ClusterNode
from trainyard_contracts.parallelcluster import HEAD_NODE

Role = Literal["controller", "worker", "login"]
#: NodeType of the API's description (3.16.1).
ROLES: Mapping[str, Role] = {
    "HeadNode": "controller",
    "ComputeNode": "worker",
    "LoginNode": "login",
}


def node_of(instance: Instance) -> ClusterNode:
    """Its name in Slurm only the agent knows: heartbeats say which instance has which."""
    return ClusterNode(
        instance_id=instance.instance_id,
        group=instance.queue_name or instance.pool_name or HEAD_NODE,
        role=ROLES.get(instance.node_type, "worker"),
        instance_type=instance.instance_type,
        status=node_state(instance.state),
        message=f"EC2 says {instance.state}.",
        address=instance.private_ip_address,
        launched_at=instance.launch_time,
    )


def head_of(instance: HeadNodeInstance) -> ClusterNode:
    """The head node, as a cluster's description has it."""
    return ClusterNode(
        instance_id=instance.instance_id,
        group=HEAD_NODE,
        role="controller",
        instance_type=instance.instance_type,
        status=node_state(instance.state),
        message=f"EC2 says {instance.state}.",
        address=instance.private_ip_address,
        launched_at=instance.launch_time,
    )
