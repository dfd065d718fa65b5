"""Which lines of a log are asked for, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainyard.app.runs.whose_logs import Whose


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


def last_lines(text: str, lines: int, contains: str) -> str:
    return "\n".join([line for line in text.splitlines() if contains in line][-lines:])
