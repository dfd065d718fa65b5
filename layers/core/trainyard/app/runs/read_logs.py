"""The tail of a run's job log or of its cluster's lifecycle log.

A job's log is read live from the node, or from S3 when the attempt ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainyard.app.facts.situation import cluster_of
from trainyard.domain.errors import (
    AgentTooOld,
    AttemptNotFound,
    BlobNotFound,
    FieldError,
    RetryableError,
)
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts import commands

#: Of a cluster's lifecycle log so many lines are searched.
_MOST = 10_000


@dataclass(frozen=True)
class LogTail:
    """`source` says where the text comes from.

    'node', 's3', 'cloudwatch', or 'none' when there is no log yet.
    """

    kind: Literal["job", "lifecycle"]
    attempt: int | None
    source: Literal["node", "s3", "cloudwatch", "none"]
    text: str


def read_logs(
    ports: Ports,
    run_id: str,
    *,
    attempt: int | None = None,
    lines: int = 200,
    kind: Literal["job", "lifecycle"] = "job",
    contains: str = "",
) -> LogTail:
    """`contains`: only lines with this text, of the whole log and not of its end.

    Raises RunNotFound, AttemptNotFound, AgentTooOld (it cannot search).
    """
    run = ports.runs.get(run_id)
    _check_attempt(run, attempt)
    cluster = cluster_of(ports, run)
    if kind == "lifecycle":
        text = (
            ports.backend(cluster).lifecycle_log(cluster, lines=_MOST if contains else lines)
            if cluster and cluster.arn
            else ""
        )
        text = _last(text, lines, contains) if contains else text
        return LogTail("lifecycle", None, "cloudwatch" if text else "none", text)
    number = attempt or (run.attempt.number if run.attempt else None)
    if number is None:
        return LogTail("job", None, "none", "")
    found = _stored(ports, run, number, lines, contains)
    return found or _live(ports, cluster, run, number, lines, contains)


def _check_attempt(run: Run, attempt: int | None) -> None:
    known = [found.number for found in run.attempts]
    if attempt is None or attempt in known:
        return
    there = (
        f"the run has {'attempt' if len(known) == 1 else 'attempts'} "
        f"{', '.join(map(str, known[-20:]))}"
        if known
        else "the run has none yet"
    )
    field = FieldError(
        "attempt", f"there is no attempt {attempt}; {there}; leave it out for the newest"
    )
    raise AttemptNotFound(f"{attempt} was asked for; {there}.", errors=[field])


def _last(text: str, lines: int, contains: str) -> str:
    return "\n".join([line for line in text.splitlines() if contains in line][-lines:])


def _stored(ports: Ports, run: Run, attempt: int, lines: int, contains: str) -> LogTail | None:
    body = next(filter(None, (_get(ports, key) for key in run.log_keys(attempt))), None)
    if body is None:
        return None
    return LogTail("job", attempt, "s3", _last(body.decode(errors="replace"), lines, contains))


def _get(ports: Ports, key: str) -> bytes | None:
    try:
        return ports.blobs.get(key)
    except BlobNotFound:
        return None


def _live(
    ports: Ports, cluster: Cluster | None, run: Run, attempt: int, lines: int, contains: str
) -> LogTail:
    """Ask the controller; an unreachable node means no log now, not an error of the request."""
    nothing = LogTail("job", attempt, "none", "")
    if cluster is None or cluster.status != "Ready":
        return nothing
    try:
        asked = commands.Logs(run.id, attempt, lines, contains.encode().hex())
        result = ports.commands.run(cluster, asked.argv(), timeout_seconds=20)
    except RetryableError:
        return nothing
    if contains and f"--contains {commands.UNKNOWN_OPTION}" in result.stdout:
        raise AgentTooOld(
            f"The agent of cluster '{cluster.name}' is from a version of Trainyard that cannot "
            "search a log that still grows; its end can be read, and all of it once the attempt "
            "has ended."
        )
    answer = commands.answer_of(result.stdout) if result.exit_code == 0 else None
    text = commands.Tail.of(answer).text if answer else ""
    return LogTail("job", attempt, "node", text) if text else nothing
