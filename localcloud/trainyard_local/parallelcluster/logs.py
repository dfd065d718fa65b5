"""The cluster's logs as its API lists and reads them, from moto's CloudWatch."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from trainyard_local.parallelcluster.state import Cluster


def _group(cluster: Cluster) -> Any:
    from moto.logs.models import logs_backends

    cloud = cluster.cloud
    return logs_backends[cloud.account_id][cloud.region].groups.get(cluster.log_group)


def streams_of(cluster: Cluster) -> list[dict[str, Any]]:
    group = _group(cluster)
    found = []
    for name, stream in sorted(group.streams.items()) if group else []:
        last = stream.last_event_timestamp
        about = {"logStreamName": name}
        found.append(about | ({"lastEventTimestamp": _time(last)} if last else {}))
    return found


def events_of(
    cluster: Cluster, stream: str, limit: int, *, head: bool
) -> list[dict[str, Any]] | None:
    """The first or the last lines; None without such a stream."""
    group = _group(cluster)
    if group is None or stream not in group.streams:
        return None
    events = group.streams[stream].events
    part = events[:limit] if head else events[-limit:]
    return [{"timestamp": _time(one.timestamp), "message": one.message} for one in part]


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat()
