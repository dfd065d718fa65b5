"""EC2's notice that it takes a spot instance back: it names the instance, whose tags name more.

The agent of the node hears the same from the instance itself and acts. The run's timeline gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from trainyard.domain.cluster_facts import NodeHealth
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts import places

SOURCE = "aws.ec2"
WARNING = "EC2 Spot Instance Interruption Warning"
#: The tags of an instance.
TagsOf = Callable[[str], Mapping[str, str]]


def read_warning(
    envelope: Mapping[str, Any], now: datetime, stage: str, tags_of: TagsOf
) -> BackendEvent | str | None:
    """As Backend.read_event. An instance of nobody's is dropped."""
    if envelope.get("source") != SOURCE:
        return None
    if envelope.get("detail-type") != WARNING:
        return "an event of EC2 that we do not read"
    detail, event_id = envelope.get("detail"), str(envelope.get("id") or "")
    instance = str(detail.get("instance-id") or "") if isinstance(detail, Mapping) else ""
    if not isinstance(detail, Mapping) or not event_id or not instance:
        return "malformed: no instance-id or no id"
    tags = tags_of(instance)
    mark = tags.get(places.RECORD_TAG, "")
    if tags.get(places.STAGE_TAG) != stage or not mark:
        return "it is not about an instance of ours"
    action = str(detail.get("instance-action") or "terminate")
    fact = NodeHealth(
        id=f"aws-{event_id}",
        at=now,
        instance_id=instance,
        status="a spot instance that EC2 takes back within two minutes",
        reason=f"EC2 will {action} it",
        repair_action="none",
    )
    return BackendEvent(tags.get(places.CLUSTER_TAG, ""), "", fact, mark)
