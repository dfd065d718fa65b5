"""Reads what ParallelCluster's parts tell by themselves: CloudFormation and the head node's daemon.

CloudFormation's events come by EventBridge. clustermgtd writes its own as lines of JSON into the
cluster's log group, and a subscription brings them. Fields may be missing: all is optional.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from trainyard.domain.cluster_facts import ClusterEvent, ClusterState, LifecycleFailed
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts.parallelcluster_queues import queue_of_node

SOURCE = "aws.cloudformation"
STACK_CHANGE = "CloudFormation Stack Status Change"
_STACK = re.compile(r"^arn:[a-z-]+:cloudformation:[a-z0-9-]+:[0-9]{12}:stack/([^/]+)/[0-9a-f-]+$")
#: A name that CloudFormation gave a stack within a stack: the outer name, a part's, and its own
#: twelve letters and digits.
_NESTED = re.compile(r"^.+-[A-Za-z0-9]+-[A-Z0-9]{12,13}$")
#: Of a script of a node, ours or the user's.
SCRIPT_FAILED = "custom-action-error"
#: Of nodes that did not boot: so many in one queue, and ParallelCluster switches it off.
BOOT_FAILED = "protected-mode-error-count"
#: Kinds of clustermgtd's events that say that nodes are lacking, in words for a person.
#: (cluster_event_publisher.py of aws-parallelcluster-node.)
TROUBLES: Mapping[str, str] = {
    "node-launch-failure-count": "nodes could not be started",
    BOOT_FAILED: "nodes failed to boot",
    "nodes-failing-health-check-count": "nodes fail a health check",
    "node-not-responding-down-count": "nodes do not answer and were set down",
    "invalid-backing-instance-count": "nodes have no instance behind them",
    SCRIPT_FAILED: "a script of OnNodeConfigured failed",
}
#: Failure types: why EC2 gave no node, and why one did not boot.
_CAUSES: Mapping[str, str] = {
    "ice-failures": "EC2 has no capacity",
    "vcpu-limit-failures": "the account's limit of vCPUs is reached",
    "volume-limit-failures": "the account's limit of volumes is reached",
    "iam-policy-errors": "the head node's role may not start them",
    "static-replacement-timeout-error": "they were not up in time",
    "dynamic-resume-timeout-error": "they were not up in time",
    "other-bootstrap-error": "they ended or broke while they were set up",
}
#: What the fleet's state says after such a failure, if it does.
PROTECTED_MODE = (
    "the fleet is in protected mode now: queues whose nodes did not boot are switched off. Mend "
    "the cause, then stop the fleet and start it again (trainyard cluster stop CLUSTER, trainyard "
    "cluster start CLUSTER)"
)
_SHOWN = 10


def read_event(envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
    """As Backend.read_event. Whose cluster the stack is, the caller knows by its ARN."""
    if envelope.get("source") != SOURCE:
        return None
    if envelope.get("detail-type") != STACK_CHANGE:
        return "an event of CloudFormation that we do not read"
    detail, event_id = envelope.get("detail"), str(envelope.get("id") or "")
    if not isinstance(detail, Mapping) or not event_id:
        return "malformed: no detail or no id"
    arn = str(detail.get("stack-id") or "")
    named = _STACK.match(arn)
    if named is None:
        return "malformed: no stack-id"
    if _NESTED.match(named.group(1)):
        return "an event of a stack within another one"
    told = detail.get("status-details")
    status = str(told.get("status") or "") if isinstance(told, Mapping) else ""
    if not status or not isinstance(told, Mapping):
        return "malformed: no status-details.status"
    fact = ClusterState(
        id=f"aws-{event_id}",
        at=now,
        status=status,
        failure_message=str(told.get("status-reason") or ""),
    )
    return BackendEvent(named.group(1), arn, fact)


def read_message(message: str, now: datetime, stack_of: Callable[[str], str]) -> BackendEvent | str:
    """A line of the log as text; `stack_of` gives the stack's ARN for the cluster's name."""
    try:
        line = json.loads(message)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        return "a line that is no event"
    read = read_line(line, now)
    return read if isinstance(read, str) else replace(read, cluster_arn=stack_of(read.cluster_name))


def read_line(line: Mapping[str, Any], now: datetime) -> BackendEvent | str:
    """A line of clustermgtd's events: a fact, or why it is dropped."""
    kind = str(line.get("event-type") or "")
    cluster, detail = str(line.get("cluster-name") or ""), line.get("detail")
    if not kind or not cluster or not isinstance(detail, Mapping):
        return "malformed: no event-type, cluster-name or detail"
    if kind not in TROUBLES:
        return f"a figure of ParallelCluster ({kind})"
    count = detail.get("count")
    if count == 0:
        return f"a figure of ParallelCluster ({kind}: 0)"
    broken = kind == SCRIPT_FAILED
    fact = (LifecycleFailed if broken else ClusterEvent)(
        id=f"parallelcluster-{cluster}-{line.get('datetime')}-{kind}-{_failure(detail)}",
        at=now,
        description=_sentence(kind, line, detail),
        level=str(line.get("level") or ""),
        instance_id=str(line.get("instance-id") or "") if broken else "",
        event_id=kind,
        failure_message=_codes(detail),
        partitions=_partitions(detail),
    )
    return BackendEvent(cluster, "", fact)


def _sentence(kind: str, line: Mapping[str, Any], detail: Mapping[str, Any]) -> str:
    count = detail.get("count")
    what = f"{count} {TROUBLES[kind]}" if isinstance(count, int) else TROUBLES[kind]
    why = _CAUSES.get(_failure(detail)) or _failure(detail) or str(line.get("message") or "")
    names = _names(detail)
    nodes = f" ({', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''})"
    said = f"{what}{nodes if names else ''}{f': {why}' if why else ''}."
    return f"{said}{_follows(detail) if kind == BOOT_FAILED else ''}"[:1000]


def _follows(detail: Mapping[str, Any]) -> str:
    """clustermgtd counts them by queue, anew after each node that boots; protected_failure_count
    is 10.
    """
    queues = " or ".join(f"'{queue}'" for queue in _partitions(detail))
    return (
        f" Ten of these without a node that boots switch queue{f' {queues}' if queues else ''} off "
        "(ParallelCluster's protected mode); other queues still serve."
    )


def _partitions(detail: Mapping[str, Any]) -> list[str]:
    return sorted(set(filter(None, map(queue_of_node, _names(detail)))))


def _failure(detail: Mapping[str, Any]) -> str:
    return str(detail.get("failure-type") or "")


def _codes(detail: Mapping[str, Any]) -> str:
    """EC2's own codes of a launch that failed."""
    told = detail.get("error-details")
    return ", ".join(sorted(told)) if isinstance(told, Mapping) else ""


def _names(detail: Mapping[str, Any]) -> list[str]:
    """Of the nodes, which lie below EC2's codes, or all together."""
    told = detail.get("error-details")
    parts = [*told.values(), detail] if isinstance(told, Mapping) else [detail]
    lists = [part.get("nodes") for part in parts if isinstance(part, Mapping)]
    nodes = [
        node
        for found in lists
        if isinstance(found, list)
        for node in found
        if isinstance(node, Mapping)
    ]
    return [str(node["name"]) for node in nodes if node.get("name")]
