"""How this attempt ended, in the words that an agent has for it: from the launchers' reports of all
hosts and the log of the host that failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard_contracts import places
from trainyard_contracts.diagnosis import LOG_TAIL_BYTES, diagnose
from trainyard_contracts.diagnosis_verdict import Diagnosis

ERROR_CHARACTERS, TRACEBACK_CHARACTERS = 500, 4000


@dataclass(frozen=True)
class Launch:
    """One host's launcher's report. What is not of its type is not there: a program may write
    it.
    """

    node: str
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    kind: str | None = None
    error: str | None = None
    traceback: str | None = None
    exception: str | None = None
    lasting: str | None = None
    memory: str | None = None
    remark: str | None = None

    @classmethod
    def of(cls, node: str, said: Mapping[str, Any]) -> Launch:
        return cls(
            node,
            _number(said.get("started")),
            _number(said.get("ended")),
            _code(said.get("exitCode")),
            _code(said.get("signal")),
            _text(said.get("kind")),
            _text(said.get("error")),
            _text(said.get("traceback"), TRACEBACK_CHARACTERS),
            _text(said.get("exception")),
            _text(said.get("lasting")),
            _text(said.get("memory")),
            _text(said.get("remark")),
        )


@dataclass(frozen=True)
class JobEnd:
    """The job as a scheduler would show it."""

    state: str
    exit_code: int
    signal: int
    nodes: tuple[str, ...]


def read_report(attempt_dir: Path, host: str) -> dict[str, Any]:
    """What this host's launcher wrote; nothing where that cannot be read."""
    try:
        said = json.loads((attempt_dir / places.launch_report(host)).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return dict(said) if isinstance(said, dict) else {}


def read_tail(path: Path, most: int = LOG_TAIL_BYTES) -> str:
    """The last whole lines of the log."""
    try:
        with open(path, "rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - most - 1))
            body = log.read()
    except OSError:
        return ""
    if len(body) > most:
        body = body[1:].partition(b"\n")[2] or body[1:]
    return body.decode(errors="replace").encode()[-most:].decode(errors="ignore")


@dataclass(frozen=True)
class HostEnd:
    """One host's part: its launcher's exit code (None: it is gone, or still runs), report, log."""

    host: str
    exit_code: int | None
    report: Mapping[str, Any]
    tail: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"exitCode": self.exit_code, "report": dict(self.report), "tail": self.tail}

    @classmethod
    def of(cls, host: str, said: Mapping[str, Any]) -> HostEnd:
        return cls(host, said["exitCode"], said["report"], said["tail"])


def judge(hosts: Sequence[str], ends: Sequence[HostEnd], lost: Sequence[str]) -> Diagnosis:
    """`lost`: hosts that are gone without a word."""
    failed = [end for end in ends if end.exit_code]
    code = failed[0].exit_code or 0 if failed else 0
    signalled = -code if code < 0 else 0
    state = "FAILED" if failed or lost or len(ends) < len(hosts) else "COMPLETED"
    job = JobEnd(state, max(code, 0), signalled, tuple(hosts))
    launches = [Launch.of(end.host, end.report) for end in ends if end.report]
    return diagnose(
        job, launches, tail_of(ends, None), lost=lost, cancelled=False, superseded=False
    )


def tail_of(ends: Sequence[HostEnd], host: str | None) -> str:
    """The log of this host, or of the first that failed, or of the first of all."""
    order = sorted(ends, key=lambda end: (end.host != host, not end.exit_code))
    return order[0].tail if order else ""


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 2**40 else None  # type: ignore[arg-type]


def _code(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**31 else None


def _text(value: object, most: int = ERROR_CHARACTERS) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.encode(errors="replace").decode()
    return text if len(text) <= most else text[-most:] if most > ERROR_CHARACTERS else text[:most]


def fields(diagnosis: Diagnosis, tail: str) -> dict[str, Any]:
    """Of AttemptEnded, as in JSON."""
    return {
        "outcome": diagnosis.outcome,
        "exitCode": diagnosis.exit_code,
        "signal": diagnosis.signal,
        "error": diagnosis.error,
        "errorKind": diagnosis.error_kind,
        "exception": diagnosis.exception,
        "lasting": diagnosis.lasting,
        "memory": diagnosis.memory,
        "traceback": diagnosis.traceback,
        "remark": diagnosis.remark,
        "failedNode": diagnosis.failed_node,
        "logTail": tail,
    }


def sentence(diagnosis: Diagnosis) -> str:
    """For AWS's FailureReason."""
    where = f" on {diagnosis.failed_node}" if diagnosis.failed_node else ""
    if diagnosis.error:
        return f"The program failed{where}: {diagnosis.error}"
    if diagnosis.signal:
        return f"The program was killed by signal {diagnosis.signal}{where}"
    return f"The program ended with exit code {diagnosis.exit_code}{where}"
