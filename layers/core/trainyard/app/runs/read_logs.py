"""The tail of a run's job log, of the logs of single ranks, or of its cluster's lifecycle log.

A job's log is read live from the node, or from S3 when the attempt ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainyard.app.facts.situation import cluster_of
from trainyard.app.runs import rank_logs
from trainyard.app.runs.rank_logs import Whose
from trainyard.domain.errors import (
    AgentTooOld,
    AttemptNotFound,
    BlobNotFound,
    FieldError,
    InvalidRequest,
    RetryableError,
)
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts import commands, places
from trainyard_contracts.files import LogTimes

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


@dataclass(frozen=True)
class Asked:
    """Which lines of a log."""

    lines: int
    contains: str
    since_seconds: int
    whose: Whose


def read_logs(
    ports: Ports,
    run_id: str,
    *,
    attempt: int | None = None,
    lines: int = 200,
    kind: Literal["job", "lifecycle"] = "job",
    contains: str = "",
    since_seconds: int = 0,
    whose: Whose = Whose(),
) -> LogTail:
    """`contains`: only lines with this text, of the whole log and not of its end. `since_seconds`:
    only what was printed in so many last seconds, of an ended attempt before its end; 0: all.
    `whose`: of which ranks.

    Raises RunNotFound, AttemptNotFound, InvalidRequest, AgentTooOld (it cannot search, or keeps no
    logs of single ranks), LogNotKept.
    """
    _check_kind(kind, since_seconds)
    asked = Asked(lines, contains, since_seconds, whose)
    run = ports.runs.get(run_id)
    _check_attempt(run, attempt)
    number = attempt or (run.attempt.number if run.attempt else None)
    rank_logs.check(run, number, whose, kind)
    cluster = cluster_of(ports, run)
    if kind == "lifecycle":
        return _of_lifecycle(ports, cluster, lines, contains)
    if number is None:
        return LogTail("job", None, "none", "")
    if whose.single:
        return _of_ranks(ports, cluster, run, number, asked)
    return _stored(ports, run, number, asked) or _live(ports, cluster, run, number, asked)


def _check_kind(kind: Literal["job", "lifecycle"], since_seconds: int) -> None:
    if since_seconds and kind == "lifecycle":
        words = "is for the job's log; leave it out, or ask for kind=job"
        raise InvalidRequest(
            "One parameter does not fit.", errors=[FieldError("sinceSeconds", words)]
        )


def _of_lifecycle(ports: Ports, cluster: Cluster | None, lines: int, contains: str) -> LogTail:
    text = (
        ports.backend(cluster).lifecycle_log(cluster, lines=_MOST if contains else lines)
        if cluster and cluster.arn
        else ""
    )
    text = _last(text, lines, contains) if contains else text
    return LogTail("lifecycle", None, "cloudwatch" if text else "none", text)


def _of_ranks(
    ports: Ports, cluster: Cluster | None, run: Run, attempt: int, asked: Asked
) -> LogTail:
    """Refused is what an older version of Trainyard did not write."""
    for key in run.log_keys(attempt):
        kept = rank_logs.Kept(key, lambda name: _get(ports, name))
        text = kept.text(asked.whose, asked.lines, asked.contains, asked.since_seconds)
        if text is not None:
            return LogTail("job", attempt, "s3", text)
    found = _live(ports, cluster, run, attempt, asked)
    if found.source == "none" and any(map(ports.blobs.head, run.log_keys(attempt))):
        raise AgentTooOld(
            "Of this attempt no logs of single ranks were kept: a version of Trainyard ran it that "
            "wrote none, or they could not be kept; leave rank and node out."
        )
    return found


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


def _stored(ports: Ports, run: Run, attempt: int, asked: Asked) -> LogTail | None:
    key, body = next(
        ((key, body) for key in run.log_keys(attempt) if (body := _get(ports, key))), ("", b"")
    )
    if not body:
        return None
    if asked.since_seconds:
        body = _since(body, _get(ports, places.log_times_key(key)), asked.since_seconds)
    text = _last(body.decode(errors="replace"), asked.lines, asked.contains)
    return LogTail("job", attempt, "s3", text)


def _since(body: bytes, times: bytes | None, seconds: int) -> bytes:
    """The part of a log that was printed in its last seconds, as its times say."""
    if times is None:
        raise AgentTooOld(
            "This log was kept by a version of Trainyard that noted no times; leave sinceSeconds "
            "out."
        )
    marks = LogTimes.model_validate_json(times).marks
    if not marks:
        return body
    left = rank_logs.since(marks, marks[-1].at - seconds, len(body))
    return body[max(0, len(body) - left) :]


def _get(ports: Ports, key: str) -> bytes | None:
    try:
        return ports.blobs.get(key)
    except BlobNotFound:
        return None


def _live(ports: Ports, cluster: Cluster | None, run: Run, attempt: int, asked: Asked) -> LogTail:
    """Ask the controller; an unreachable node means no log now, not an error of the request.

    Where nodes come with jobs, AWS keeps what they printed, whatever became of the cluster.
    """
    nothing = LogTail("job", attempt, "none", "")
    kept = cluster is not None and cluster.spec.nodes_come_with_jobs
    if cluster is None or (cluster.status != "Ready" and not kept):
        return nothing
    try:
        found = asked.contains.encode().hex()
        command = commands.Logs(
            run.id,
            attempt,
            asked.lines,
            found,
            asked.since_seconds,
            asked.whose.rank,
            asked.whose.node,
        )
        result = ports.backend(cluster).run(cluster, command.argv(), timeout_seconds=20)
    except RetryableError:
        return nothing
    _refuse_old_agents(cluster.name, command, result.stdout)
    answer = commands.answer_of(result.stdout) if result.exit_code == 0 else None
    tail = commands.Tail.of(answer or {})
    if tail.lacks and any(one.number == attempt and one.ended_at for one in run.attempts):
        raise AgentTooOld(
            f"Attempt {attempt} has no logs of single ranks: its nodes have a version of Trainyard "
            "that writes none, or its program was never started; leave rank and node out."
        )
    source: Literal["cloudwatch", "node"] = "cloudwatch" if kept else "node"
    return LogTail("job", attempt, source, tail.text) if tail.text else nothing


def _refuse_old_agents(cluster: str, command: commands.Logs, said: str) -> None:
    unknown = [name for name in command.options() if f"--{name} {commands.UNKNOWN_OPTION}" in said]
    if not unknown:
        return
    if unknown[0] in ("rank", "node"):
        raise AgentTooOld(
            f"Cluster '{cluster}' is from a version of Trainyard in which ranks have no logs of "
            "their own; leave rank and node out."
        )
    raise AgentTooOld(
        f"The agent of cluster '{cluster}' is from a version of Trainyard that cannot search a log "
        "that still grows, by text or by time; its end can be read, and all of it once the attempt "
        "has ended."
    )
