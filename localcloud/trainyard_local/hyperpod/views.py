"""How a local HyperPod cluster looks from outside.

It makes DescribeCluster's answer, and the file by which the nodes know each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard_local.hyperpod.state import Cluster
from trainyard_local.nodes.node import Node


def describe(cluster: Cluster) -> dict[str, Any]:
    """DescribeCluster's answer."""
    answer = {
        "ClusterArn": cluster.arn,
        "ClusterName": cluster.name,
        "ClusterStatus": cluster.status,
        "CreationTime": cluster.created_at,
        "FailureMessage": cluster.failure_message,
        "InstanceGroups": [_group(cluster, group) for group in cluster.groups.values()],
        "NodeRecovery": cluster.request.get("NodeRecovery", "Automatic"),
    }
    optional = ("VpcConfig", "Orchestrator", "NodeProvisioningMode", "ClusterRole")
    return answer | {key: cluster.request[key] for key in optional if cluster.request.get(key)}


def _group(cluster: Cluster, group: Mapping[str, Any]) -> dict[str, Any]:
    kept = (
        "InstanceGroupName", "InstanceType", "LifeCycleConfig", "ExecutionRole", "ThreadsPerCore",
        "InstanceStorageConfigs", "OnStartDeepHealthChecks", "TrainingPlanArn",
        "OverrideVpcConfig", "SlurmConfig",
    )  # fmt: skip
    members = cluster.members(group["InstanceGroupName"])
    running = sum(node.status == "Running" for node in members)
    return {
        **{key: group[key] for key in kept if group.get(key) is not None},
        "CurrentCount": running,
        "TargetCount": group["InstanceCount"],
        "Status": _group_status(
            cluster, running, group["InstanceCount"], [node.status for node in members]
        ),
    }


def _group_status(cluster: Cluster, running: int, target: int, states: list[str]) -> str:
    if cluster.status in ("Deleting", "Failed"):
        return cluster.status
    if running >= target:
        return "InService"
    return (
        "Degraded"
        if "Failure" in states
        else "Creating"
        if cluster.status == "Creating" or cluster.continuous
        else "Updating"
    )


def resource_config(cluster: Cluster, me: Node) -> dict[str, Any]:
    """resource_config.json as `me` finds it, in HyperPod's layout.

    A group that has no instance yet says null.
    """
    controller = cluster.controller
    return {
        "ClusterConfig": {"ClusterName": cluster.name, "ClusterArn": cluster.arn},
        "ClusterType": "Slurm",
        "SlurmConfig": {
            "PrimaryControllerIp": controller.address if controller else "",
            "SecondaryControllerIps": [],
        },
        "InstanceGroups": [
            {
                "Name": name,
                "InstanceType": group.get("InstanceType", ""),
                "Instances": [
                    _config(cluster, node)
                    for node in cluster.members(name)
                    if node.powered or node is me
                ]
                or None,
            }
            for name, group in cluster.groups.items()
        ],
    }


def _config(cluster: Cluster, node: Node) -> dict[str, str]:
    entry: dict[str, str] = node.config()
    if "resource-config-has-other-names" in cluster.cloud.quirks:
        entry["PrimaryIpAddress"] = entry.pop("CustomerIpAddress")
    return entry
