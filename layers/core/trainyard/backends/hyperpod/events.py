"""Reads the events that SageMaker HyperPod itself sends.

Keys may be null and texts change, so everything is optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from trainyard.domain.cluster_facts import ClusterEvent, ClusterState, LifecycleFailed, NodeHealth
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts.hyperpod import CLUSTER_STATE_CHANGE, ClusterStateChange

SOURCE = "aws.sagemaker"
NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"
_REPAIRS = {"Reboot": "reboot", "Replace": "replace", "None": "none"}


def read_event(envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
    """As Backend.read_event. The fact's id comes from the event's own."""
    if envelope.get("source") != SOURCE:
        return None
    if not str(envelope.get("detail-type")).startswith("SageMaker HyperPod "):
        return None
    detail = envelope.get("detail")
    event_id = str(envelope.get("id") or "")
    if not isinstance(detail, Mapping) or not event_id:
        return "malformed: no detail or no id"
    reader = {CLUSTER_STATE_CHANGE: _state, NODE_HEALTH: _health, CLUSTER_EVENT: _event}.get(
        str(envelope.get("detail-type"))
    )
    return reader(detail, f"aws-{event_id}", now) if reader else "an AWS event that we do not read"


def _state(detail: Mapping[str, Any], fact_id: str, now: datetime) -> BackendEvent | str:
    try:
        change = ClusterStateChange.model_validate(detail)
    except ValidationError as error:
        return f"malformed: {error.error_count()} errors"
    fact = ClusterState(
        id=fact_id,
        at=now,
        status=change.cluster_status,
        failure_message=change.failure_message or "",
    )
    return BackendEvent(change.cluster_name, change.cluster_arn, fact)


def _health(detail: Mapping[str, Any], fact_id: str, now: datetime) -> BackendEvent | str:
    summary = detail.get("HealthSummary") or {}
    if not detail.get("ClusterName") or not isinstance(summary, Mapping):
        return "malformed: no ClusterName or HealthSummary"
    instance, status = (
        str(detail.get("InstanceId") or "?"),
        str(summary.get("HealthStatus") or "unknown"),
    )
    reason, action = (
        str(summary.get("HealthStatusReason") or "no reason given"),
        _REPAIRS.get(str(summary.get("RepairAction") or "None"), "unknown"),
    )
    fact = NodeHealth(
        id=fact_id, at=now, instance_id=instance, status=status, reason=reason, repair_action=action
    )
    return BackendEvent(str(detail["ClusterName"]), str(detail.get("ClusterArn") or ""), fact)


def _event(detail: Mapping[str, Any], fact_id: str, now: datetime) -> BackendEvent | str:
    inner = detail.get("EventDetails")
    if not isinstance(inner, Mapping) or not inner.get("ClusterName"):
        return "malformed: no EventDetails.ClusterName"
    text = str(inner.get("Description") or "no description")[:1000]
    level = str(inner.get("EventLevel") or "")  # AWS's own sample has none
    broken = "lifecycle script" in text.lower() and "fail" in text.lower()
    if level == "Info" and not broken:
        return "an informational event of HyperPod"
    instance, event = str(inner.get("InstanceId") or ""), str(inner.get("EventId") or "")
    kind = LifecycleFailed if broken else ClusterEvent
    fact = kind(
        id=fact_id, at=now, description=text, level=level, instance_id=instance, event_id=event
    )
    return BackendEvent(str(inner["ClusterName"]), str(inner.get("ClusterArn") or ""), fact)
