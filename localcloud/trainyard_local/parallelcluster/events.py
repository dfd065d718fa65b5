"""What a cluster tells by itself: CloudFormation's events, and its daemons' lines of JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from trainyard_local.parallelcluster.state import Cluster, now

STACK_CHANGE = "CloudFormation Stack Status Change"
STACK = "AWS::CloudFormation::Stack"
#: A stack within the cluster's, which sends events of its own.
NESTED = "ComputeFleetQueuesBatch0QueueGroup0"
_EC2 = {"InsufficientInstanceCapacity": "ice-failures", "VcpuLimitExceeded": "vcpu-limit-failures"}
MESSAGES = {
    "node-launch-failure-count": "Number of dynamic nodes that failed to launch a backing instance",
    "protected-mode-error-count": "Number of nodes that failed to bootstrap",
    "node-not-responding-down-count": (
        "Number of nodes set to DOWN because they are not responding"
    ),
    "invalid-backing-instance-count": "Number of nodes without a valid backing instance",
}


def stack_changed(cluster: Cluster, status: str, reason: str = "") -> None:
    """The stack has another status; a stack within it goes the same way."""
    cluster.stack = status
    cluster.updated_at = now()
    nested = f"{cluster.name}-{NESTED}-{cluster.id.upper()}"
    where = f"{cluster.cloud.region}:{cluster.cloud.account_id}"
    nested_arn = f"arn:aws:cloudformation:{where}:stack/{nested}/{uuid.uuid4()}"
    _record(cluster, cluster.name, STACK, status, reason)
    _send(cluster, nested_arn, status, "")
    _send(cluster, cluster.arn, status, reason)


def resource_changed(
    cluster: Cluster, logical: str, kind: str, status: str, reason: str = ""
) -> None:
    """A resource of the stack has another status; only its list of events says so."""
    _record(cluster, logical, kind, status, reason)


def _record(cluster: Cluster, logical: str, kind: str, status: str, reason: str) -> None:
    event = {
        "stackId": cluster.arn,
        "eventId": str(uuid.uuid4()),
        "stackName": cluster.name,
        "logicalResourceId": logical,
        "physicalResourceId": cluster.arn if kind == STACK else logical,
        "resourceType": kind,
        "timestamp": now().isoformat(timespec="milliseconds"),
        "resourceStatus": status,
    }
    with cluster.lock:
        cluster.stack_events.append(event | ({"resourceStatusReason": reason} if reason else {}))


def _send(cluster: Cluster, arn: str, status: str, reason: str) -> None:
    detail = {
        "stack-id": arn,
        "status-details": {"status": status, "status-reason": reason},
        "client-request-token": "",
    }
    for _ in range(2 if cluster.settings.duplicate_events else 1):
        cluster.cloud.put_event("aws.cloudformation", STACK_CHANGE, detail, [arn])


def tell(
    cluster: Cluster, component: str, kind: str, detail: Mapping[str, Any], **more: Any
) -> None:
    """A line of the head node's daemons, in the log `clustermgtd_events` or `slurm_resume_events`.

    ParallelCluster tells figures of nothing, too; only those that count something are told here.
    """
    head = cluster.head
    if head is None:
        return
    line = {
        "datetime": now().isoformat(timespec="milliseconds"),
        "version": 0,
        "scheduler": "slurm",
        "cluster-name": cluster.name,
        "node-role": "HeadNode",
        "component": component,
        "level": "WARNING",
        "instance-id": head.instance_id,
        "event-type": kind,
        "message": MESSAGES.get(kind, kind),
        "detail": dict(detail),
        **more,
    }
    stream = "slurm_resume_events" if component == "slurm-resume" else "clustermgtd_events"
    cluster.log(head, stream, [json.dumps(line)])


def launch_failed(cluster: Cluster, component: str, code: str, names: Sequence[str]) -> None:
    detail = {
        "failure-type": _EC2.get(code, "other-failures"),
        "count": len(names),
        "error-details": {code: {"count": len(names), "nodes": _named(names)}},
    }
    tell(cluster, component, "node-launch-failure-count", detail)


def not_booted(cluster: Cluster, names: Sequence[str]) -> None:
    detail = {
        "failure-type": "other-bootstrap-error",
        "count": len(names),
        "nodes": _named(names),
    }
    tell(cluster, "clustermgtd", "protected-mode-error-count", detail)


def counted(cluster: Cluster, kind: str, names: Sequence[str]) -> None:
    if names:
        tell(cluster, "clustermgtd", kind, {"count": len(names), "nodes": _named(names)})


def _named(names: Sequence[str]) -> list[dict[str, str]]:
    return [{"name": name} for name in names]
