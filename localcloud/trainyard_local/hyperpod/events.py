"""A local HyperPod cluster's events in AWS's words: state changes, cluster events, node health."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from typing import Any

from trainyard_local.hyperpod.state import Cluster
from trainyard_local.hyperpod.views import describe
from trainyard_local.nodes.node import Node

STATE_CHANGE = "SageMaker HyperPod Cluster State Change"
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"
NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"


def announce(cluster: Cluster) -> None:
    """Send the state change; AWS may send it more than once, so may we."""
    for _ in range(2 if cluster.settings.duplicate_events else 1):
        _send(cluster, STATE_CHANGE, _state_change(cluster))


def _state_change(cluster: Cluster) -> dict[str, Any]:
    described = describe(cluster)
    return {
        "ClusterArn": cluster.arn,
        "ClusterName": cluster.name,
        "ClusterStatus": cluster.status,
        "CreationTime": _milliseconds(cluster.created_at),
        "FailureMessage": cluster.failure_message,
        "InstanceGroups": [
            {"TrainingPlanArn": "", "OverrideVpcConfig": None, **group}
            for group in described["InstanceGroups"]
        ],
        "VpcConfig": cluster.request.get("VpcConfig") or {},
        "Orchestrator": cluster.request.get("Orchestrator") or {},
        "NodeRecovery": cluster.request.get("NodeRecovery", "Automatic"),
        "SdkResponseMetadata": None,
        "Tags": dict(cluster.tags),
    }


def note(
    cluster: Cluster,
    resource: str,
    description: str,
    node: Node | None = None,
    level: str = "Info",
    reason: str = "",
) -> None:
    """Keep a cluster event and send it; only Continuous clusters have them.

    The bus's copy carries no metadata, as on AWS.
    """
    if not cluster.continuous:
        return
    at = datetime.now(timezone.utc)
    event: dict[str, Any] = {
        "EventId": str(uuid.uuid4()),
        "ClusterArn": cluster.arn,
        "ClusterName": cluster.name,
        "ResourceType": resource,
        "EventTime": at,
        "Description": description,
        "EventLevel": level,
    }
    if node is not None:
        event |= {"InstanceGroupName": node.group, "InstanceId": node.instance_id}
    with cluster.lock:
        cluster.events.append(event)
        cluster.event_reasons[event["EventId"]] = reason or (
            node.message if node is not None else cluster.failure_message
        )
    sent = {**event, "EventTime": _milliseconds(at), "EventDetails": {"EventMetadata": None}}
    _send(cluster, CLUSTER_EVENT, {"EventDetails": sent})


def report_health(
    cluster: Cluster, node: Node, status: str, reason: str | None, action: str
) -> None:
    """Send a node health event.

    Only on request, since HyperPod watches GPU and Trainium nodes only.
    """
    summary = {
        "HealthStatus": status,
        "HealthStatusReason": reason,
        "RepairAction": action,
        "Recommendation": None,
    }
    detail = {
        "ClusterName": cluster.name,
        "ClusterArn": cluster.arn,
        "InstanceId": node.instance_id,
        "HealthSummary": summary,
        "EventTime": None,
        "Tags": dict(cluster.tags),
    }
    _send(cluster, NODE_HEALTH, detail)


def _send(cluster: Cluster, kind: str, detail: dict[str, Any]) -> None:
    if "events-have-another-detail-type" in cluster.cloud.quirks:
        kind = kind.replace("HyperPod Cluster", "AI HyperPod Cluster")
    cluster.cloud.put_event("aws.sagemaker", kind, detail, [cluster.arn])


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
