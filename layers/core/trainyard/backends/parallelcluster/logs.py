"""What a node said while it was made: the evidence of a failed node that outlives it.

ParallelCluster's CloudWatch agent keeps a stream for each node and log:
<host>.<instance id>.<log>.
"""

from __future__ import annotations

import re

from trainyard.backends.parallelcluster.answers import LogStream
from trainyard.backends.parallelcluster.api import ParallelClusterApi
from trainyard.backends.parallelcluster.refusals import Gone
from trainyard.domain.records import Cluster

#: Where the scripts of a node write: the head node's by cfn-init, those of the others by
#: cloud-init.
_LOGS = ("cfn-init", "cloud-init-output")
_INSTANCE = re.compile(r"\bi-[0-9a-f]{8,17}\b")


def lifecycle_tail(
    api: ParallelClusterApi, cluster: Cluster, lines: int, instance_id: str | None
) -> str:
    """The last lines of the log of one instance; '' if there is none.

    Without an instance: of the one that AWS's failure names, else of the head node.
    """
    detail = cluster.problem.detail if cluster.problem else ""
    named = _INSTANCE.search(detail)
    instance = instance_id or (named.group() if named else None)
    try:
        stream = _stream(list(api.log_streams(cluster.name)), instance)
        if stream is None:
            return ""
        tail = api.log_tail(cluster.name, stream, lines)
    except Gone:
        return ""
    return "\n".join(event.message.rstrip("\n") for event in tail)


def _stream(streams: list[LogStream], instance: str | None) -> str | None:
    for log in _LOGS:
        found = [
            one
            for one in streams
            if one.log_stream_name.endswith(f".{log}")
            and (instance is None or f".{instance}." in one.log_stream_name)
        ]
        if found:
            return max(found, key=_last_word).log_stream_name
    return None


def _last_word(stream: LogStream) -> float:
    at = stream.last_event_timestamp
    return at.timestamp() if at is not None else 0.0
