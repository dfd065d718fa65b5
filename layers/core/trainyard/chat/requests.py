"""A command that a person typed in Slack, as the function that verified it put it on the bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Self

#: What the front puts into an event's detail.
_FIELDS = ("id", "team", "user", "command", "responseUrl")


@dataclass(frozen=True)
class SlackCommand:
    """`id` is the same however often the request comes."""

    id: str
    at: datetime
    team: str
    user: str
    command: str
    text: str
    response_url: str

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Raises ValueError with what is wrong."""
        detail = event.get("detail")
        if not isinstance(detail, Mapping):
            raise ValueError("the event has no detail")
        for name in _FIELDS:
            if not isinstance(detail.get(name), str) or not detail[name]:
                raise ValueError(f"detail.{name} must be a text")
        if not isinstance(detail.get("at"), int):
            raise ValueError("detail.at must be a number of seconds")
        return cls(
            id=detail["id"],
            at=datetime.fromtimestamp(detail["at"], timezone.utc),
            team=detail["team"],
            user=detail["user"],
            command=detail["command"],
            text=str(detail.get("text") or ""),
            response_url=detail["responseUrl"],
        )

    @property
    def who(self) -> str:
        """As the list of people names them: names in Slack change, these ids do not."""
        return f"{self.team}/{self.user}"
