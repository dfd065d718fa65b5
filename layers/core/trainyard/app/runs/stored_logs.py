"""Logs that S3 keeps."""

from __future__ import annotations

from trainyard.app.runs import rank_logs
from trainyard.app.runs.log_tails import Asked, LogTail, last_lines
from trainyard.domain.errors import AgentTooOld, BlobNotFound
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.files import LogTimes


def stored_tail(ports: Ports, run: Run, attempt: int, asked: Asked) -> LogTail | None:
    key, body = next(
        ((key, body) for key in run.log_keys(attempt) if (body := stored_bytes(ports, key))),
        ("", b""),
    )
    if not body:
        return None
    if asked.since_seconds:
        body = _since(body, stored_bytes(ports, places.log_times_key(key)), asked.since_seconds)
    text = last_lines(body.decode(errors="replace"), asked.lines, asked.contains)
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


def stored_bytes(ports: Ports, key: str) -> bytes | None:
    try:
        return ports.blobs.get(key)
    except BlobNotFound:
        return None
