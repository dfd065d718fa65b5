"""What happened to a run, entry by entry, and what it printed."""

from datetime import datetime
from typing import Any, Literal

from trainyard.http.views import View


class TimelineEntry(View):
    """One line of a run's timeline: a fact, a decision with its reason, or a change of status."""

    id: str
    at: datetime
    kind: Literal["fact", "decision", "status"]
    type: str
    message: str
    attempt: int | None
    data: dict[str, Any]


class EventPage(View):
    events: list[TimelineEntry]
    next_token: str | None = None


class LogView(View):
    """The tail of a log. `source` says where it was read: the node itself or the copy in S3."""

    kind: Literal["job", "lifecycle"]
    attempt: int | None = None
    source: str
    text: str
