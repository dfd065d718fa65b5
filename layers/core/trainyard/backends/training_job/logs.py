"""What the hosts of a training job printed: AWS keeps a stream of CloudWatch for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from trainyard.backends.training_job.refusals import Gone, translated
from trainyard.backends.training_job.role import LOG_GROUP
from trainyard_contracts.commands import MOST_LINES, Logs, Tail


def tail(logs: Any, job: str, asked: Logs, ended_at: datetime | None, now: datetime) -> Tail:
    """The last lines of all hosts in order of time, or of one.

    A host's ranks share its stream. Of each stream its last page (1 MB) is read.
    """
    if asked.of_ranks and not asked.node:
        return Tail(lacks=True)
    since = (ended_at or now) - timedelta(seconds=asked.since) if asked.since else None
    wanted = bytes.fromhex(asked.contains).decode(errors="replace")
    try:
        streams = list(_streams(logs, f"{job}/{asked.node}{'-' if asked.node else ''}"))
        found = [_events(logs, stream, asked, since) for stream in streams]
    except Gone:
        return Tail()
    lines = _merged(streams, found)
    return Tail("\n".join([line for line in lines if wanted in line][-asked.lines :]))


def _streams(logs: Any, prefix: str) -> Iterator[str]:
    request: dict[str, Any] = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": prefix}
    while True:
        with translated("find the job's logs"):
            answer = logs.describe_log_streams(**request)
        yield from (stream["logStreamName"] for stream in answer["logStreams"])
        if not (token := answer.get("nextToken")):
            return
        request["nextToken"] = token


def _events(
    logs: Any, stream: str, asked: Logs, since: datetime | None
) -> Sequence[Mapping[str, Any]]:
    limit = MOST_LINES if asked.contains else asked.lines
    start = {} if since is None else {"startTime": int(since.timestamp() * 1000)}
    with translated("read the job's log"):
        answer = logs.get_log_events(
            logGroupName=LOG_GROUP,
            logStreamName=stream,
            limit=limit,
            startFromHead=False,
            **start,
        )
    return list(answer["events"])


def _merged(streams: Sequence[str], found: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Lines by their time; with several hosts each begins with its host's name."""
    hosts = [stream.rpartition("/")[2].rpartition("-")[0] for stream in streams]
    several = len(set(hosts)) > 1
    lines = [
        (event["timestamp"], number, f"[{host}] {text}" if several else text)
        for host, events in zip(hosts, found, strict=True)
        for number, event in enumerate(events)
        for text in [str(event["message"]).rstrip("\n")]
    ]
    return [text for _, _, text in sorted(lines)]
