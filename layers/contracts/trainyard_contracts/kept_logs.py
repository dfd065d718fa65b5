"""An attempt's logs as they are kept in S3: their times, and those of its ranks."""

from typing import Literal

from pydantic import Field

from .base import Lenient
from .progress_file import LATEST


class LogMark(Lenient):
    """At this time so many bytes of a log were still to come."""

    at: int = Field(ge=0, lt=LATEST, description="seconds since the epoch")
    left: int = Field(ge=0, description="bytes from there to the log's end")


class LogTimes(Lenient):
    """attempt-<n>.times.json beside a log that is kept: when its parts were printed."""

    schema_name: Literal["trainyard.log-times.v1"] = Field(
        default="trainyard.log-times.v1", alias="schema"
    )
    marks: list[LogMark] = Field(description="oldest first")


class KeptRankLog(Lenient):
    """One rank's log, or that of a program that runs once on its node."""

    node: str
    rank: int | None = None
    bytes: int = Field(ge=0, description="of the whole log")
    kept: int = Field(ge=0, description="of its end; 0: there is no object")
    marks: list[LogMark] = Field(default_factory=list, description="oldest first")


class KeptRankLogs(Lenient):
    """attempt-<n>/rank-logs.json: the logs of single ranks that are kept with an attempt's log."""

    schema_name: Literal["trainyard.rank-logs.v1"] = Field(
        default="trainyard.rank-logs.v1", alias="schema"
    )
    ended_at: int = Field(
        default=0, ge=0, lt=LATEST, description="seconds since the epoch; 0: not known"
    )
    logs: list[KeptRankLog] = Field(description="by node and rank")
    left_out: int = Field(default=0, ge=0, description="so many more were not kept")
