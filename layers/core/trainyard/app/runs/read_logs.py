"""The tail of a run's job log, of the logs of single ranks, or of its cluster's lifecycle log.

A job's log is read live from the node, or from S3 when the attempt ended.
"""

from __future__ import annotations

from typing import Literal

from trainyard.app.facts.situation import cluster_of
from trainyard.app.runs import rank_logs, whose_logs
from trainyard.app.runs.live_logs import live_tail
from trainyard.app.runs.log_tails import Asked, LogTail, last_lines
from trainyard.app.runs.stored_logs import stored_bytes, stored_tail
from trainyard.app.runs.whose_logs import Whose
from trainyard.domain.errors import AgentTooOld, AttemptNotFound, FieldError, InvalidRequest
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports

#: Of a cluster's lifecycle log so many lines are searched.
_MOST = 10_000


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
    whose_logs.check(run, number, whose, kind)
    cluster = cluster_of(ports, run)
    if kind == "lifecycle":
        return _of_lifecycle(ports, cluster, lines, contains)
    if number is None:
        return LogTail("job", None, "none", "")
    if whose.single:
        return _of_ranks(ports, cluster, run, number, asked)
    return stored_tail(ports, run, number, asked) or live_tail(ports, cluster, run, number, asked)


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
    text = last_lines(text, lines, contains) if contains else text
    return LogTail("lifecycle", None, "cloudwatch" if text else "none", text)


def _of_ranks(
    ports: Ports, cluster: Cluster | None, run: Run, attempt: int, asked: Asked
) -> LogTail:
    """Refused is what an older version of Trainyard did not write."""
    for key in run.log_keys(attempt):
        kept = rank_logs.Kept(key, lambda name: stored_bytes(ports, name))
        text = kept.text(asked.whose, asked.lines, asked.contains, asked.since_seconds)
        if text is not None:
            return LogTail("job", attempt, "s3", text)
    found = live_tail(ports, cluster, run, attempt, asked)
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
