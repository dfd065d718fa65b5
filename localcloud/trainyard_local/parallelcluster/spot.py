"""A spot instance that EC2 takes back: notices first, the end later."""

from __future__ import annotations

from datetime import timedelta

from trainyard_local.nodes.node import Node
from trainyard_local.parallelcluster.cluster import LocalCluster
from trainyard_local.parallelcluster.node import QueueNode
from trainyard_local.parallelcluster.state import now

WARNING = "EC2 Spot Instance Interruption Warning"


def interrupt(cluster: LocalCluster, node: Node, seconds: float | None = None) -> str:
    """Returns when the instance ends. Raises ValueError for one that is no spot instance."""
    if not isinstance(node, QueueNode) or not node.spot:
        raise ValueError(
            f"node: {node.name} is no spot instance; its queue must have capacity spot"
        )
    notice = cluster.settings.spot_notice_seconds if seconds is None else seconds
    node.interrupted_at = f"{now() + timedelta(seconds=notice):%Y-%m-%dT%H:%M:%SZ}"
    where = f"{cluster.cloud.region}:{cluster.cloud.account_id}"
    detail = {"instance-id": node.instance_id, "instance-action": "terminate"}
    arn = f"arn:aws:ec2:{where}:instance/{node.instance_id}"
    cluster.cloud.put_event("aws.ec2", WARNING, detail, [arn])

    def end() -> None:
        cluster.closing.wait(notice)
        if not cluster.closing.is_set() and node.instance_id in cluster.nodes:
            cluster.power_cut(node)

    cluster.in_background(end)
    return node.interrupted_at
