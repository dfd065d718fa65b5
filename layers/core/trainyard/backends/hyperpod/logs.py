"""The lifecycle script's log in CloudWatch: the only evidence of a failed node that outlives it."""

from __future__ import annotations

from typing import Any

from trainyard.backends.hyperpod.refusals import Gone, translated
from trainyard.domain.records import Cluster

_STREAMS = 50


def lifecycle_tail(logs: Any, cluster: Cluster, lines: int, instance_id: str | None) -> str:
    """The last lines of one instance's log, of the newest log if no instance is named.

    '' if there is none.
    """
    group = f"/aws/sagemaker/Clusters/{cluster.name}/{cluster.id}"
    try:
        with translated("read the lifecycle log"):
            stream = _stream(logs, group, instance_id)
            if stream is None:
                return ""
            answer = logs.get_log_events(
                logGroupName=group, logStreamName=stream, limit=lines, startFromHead=False
            )
    except Gone:
        return ""
    return "\n".join(event["message"].rstrip("\n") for event in answer["events"])


def _stream(logs: Any, group: str, instance_id: str | None) -> str | None:
    request: dict[str, Any] = {
        "logGroupName": group,
        "logStreamNamePrefix": "LifecycleConfig/",
        "limit": _STREAMS,
    }
    streams: list[dict[str, Any]] = []
    while True:
        answer = logs.describe_log_streams(**request)
        streams += answer["logStreams"]
        if not (token := answer.get("nextToken")):
            break
        request["nextToken"] = token
    wanted = [
        stream
        for stream in streams
        if instance_id is None or stream["logStreamName"].endswith(f"/{instance_id}")
    ]
    newest = max(wanted, key=lambda stream: stream.get("lastEventTimestamp") or 0, default=None)
    return None if newest is None else str(newest["logStreamName"])
