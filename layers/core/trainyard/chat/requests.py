"""What a person typed or clicked in Slack, as the function that verified it put it on the bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Self

#: What the front puts into the details of the two kinds of events.
_TYPED = ("id", "team", "user", "command", "responseUrl")
_CLICKED = ("id", "team", "user", "action", "value", "responseUrl")


@dataclass(frozen=True)
class SlackRequest:
    """`id` is the same however often the request comes."""

    id: str
    at: datetime
    team: str
    user: str
    response_url: str

    @property
    def who(self) -> str:
        """As the list of people names them: names in Slack change, these ids do not."""
        return f"{self.team}/{self.user}"


@dataclass(frozen=True)
class SlackCommand(SlackRequest):
    """What follows the command's name is `text`."""

    command: str
    text: str

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Raises ValueError with what is wrong."""
        detail = _detail(event, _TYPED)
        return cls(**_common(detail), command=detail["command"], text=str(detail.get("text") or ""))


@dataclass(frozen=True)
class SlackClick(SlackRequest):
    """A button of one of our messages; `value` is what the message gave it to carry."""

    action: str
    value: str

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Raises ValueError with what is wrong."""
        detail = _detail(event, _CLICKED)
        return cls(**_common(detail), action=detail["action"], value=detail["value"])


def request_of(event: Mapping[str, Any]) -> SlackCommand | SlackClick:
    """Raises ValueError with what is wrong."""
    clicked = event.get("detail-type") == "SlackClick"
    return SlackClick.of(event) if clicked else SlackCommand.of(event)


def _detail(event: Mapping[str, Any], fields: tuple[str, ...]) -> Mapping[str, Any]:
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise ValueError("the event has no detail")
    for name in fields:
        if not isinstance(detail.get(name), str) or not detail[name]:
            raise ValueError(f"detail.{name} must be a text")
    if not isinstance(detail.get("at"), int):
        raise ValueError("detail.at must be a number of seconds")
    return detail


def _common(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": detail["id"],
        "at": datetime.fromtimestamp(detail["at"], timezone.utc),
        "team": detail["team"],
        "user": detail["user"],
        "response_url": detail["responseUrl"],
    }
