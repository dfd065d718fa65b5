"""How a cluster looks in the answers of the API (names are those of its own description)."""

from __future__ import annotations

from typing import Any

from trainyard_local.parallelcluster.node import QueueNode
from trainyard_local.parallelcluster.state import VERSION, Cluster

Json = dict[str, Any]
_NODE_TYPES = {"Controller": "HeadNode", "Compute": "ComputeNode", "Login": "LoginNode"}


def summary(cluster: Cluster) -> Json:
    return {
        "clusterName": cluster.name,
        "region": cluster.cloud.region,
        "version": VERSION,
        "clusterStatus": cluster.status,
        "cloudformationStackArn": cluster.arn,
        "cloudformationStackStatus": cluster.stack,
        "scheduler": {"type": "slurm"},
    }


def description(cluster: Cluster) -> Json:
    """Here, and only here, the stack's status has another spelling."""
    found = summary(cluster)
    found["cloudFormationStackStatus"] = found.pop("cloudformationStackStatus")
    found |= {
        "creationTime": cluster.created_at.isoformat(),
        "lastUpdatedTime": cluster.changed_at.isoformat(),
        "computeFleetStatus": cluster.fleet,
        "clusterConfiguration": {"url": ""},
        "tags": [{"key": key, "value": value} for key, value in cluster.tags.items()],
    }
    if cluster.failure is not None:
        failure = cluster.failure
        found["failures"] = [{"failureCode": failure.code, "failureReason": failure.reason}]
        found["failureReason"] = failure.reason
    if (head := cluster.head) is not None and head.status != "terminated":
        found["headNode"] = instance(head)
        for key in ("nodeType",):
            found["headNode"].pop(key, None)
    return found


def instance(node: QueueNode) -> Json:
    found = {
        "instanceId": node.instance_id,
        "instanceType": node.instance_type,
        "launchTime": node.launched_at.isoformat(),
        "privateIpAddress": node.address,
        "state": node.status,
        "nodeType": _NODE_TYPES[node.role],
    }
    if node.role == "Compute":
        found["queueName"] = node.group
    if node.role == "Login":
        found["poolName"] = node.group
    return found
