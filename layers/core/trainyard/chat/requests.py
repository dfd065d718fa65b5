"""What a person typed or clicked in Slack, as the function that verified it put it on the bus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Self

#: What the front puts into the details of the two kinds of events.
_TYPED = ("id", "team", "user", "command", "responseUrl")
_CLICKED = ("id", "team", "user", "action", "value", "responseUrl")
_SENT = ("id", "team", "user", "form", "about", "values")
#: The form that submits a run; functions/slack takes those in whose names begin as our buttons'.
FORM = "trainyard.submit"


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
    #: Opens one form within three seconds; '' of none.
    trigger: str = ""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Raises ValueError with what is wrong."""
        detail = _detail(event, _TYPED)
        return cls(
            **_common(detail),
            command=detail["command"],
            text=str(detail.get("text") or ""),
            trigger=str(detail.get("trigger") or ""),
        )


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


@dataclass(frozen=True)
class SlackForm(SlackRequest):
    """A form that was sent: the run that filled it in, and what its fields hold now."""

    form: str
    run: str
    values: Mapping[str, str]

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Raises ValueError with what is wrong."""
        detail = _detail(event, _SENT)
        about, values = _object("about", detail["about"]), _object("values", detail["values"])
        for name in ("run", "url"):
            if not isinstance(about.get(name), str) or not about[name]:
                raise ValueError(f"detail.about.{name} must be a text")
        return cls(
            **_common({**detail, "responseUrl": about["url"]}),
            form=detail["form"],
            run=about["run"],
            values={str(name): str(value or "") for name, value in values.items()},
        )


def _object(name: str, text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"detail.{name} must be a JSON object")
    return found


#: By the detail-type that the front gives them.
_KINDS: Mapping[object, type[SlackCommand | SlackClick | SlackForm]] = {
    "SlackClick": SlackClick,
    "SlackForm": SlackForm,
}


def request_of(event: Mapping[str, Any]) -> SlackCommand | SlackClick | SlackForm:
    """Raises ValueError with what is wrong."""
    return _KINDS.get(event.get("detail-type"), SlackCommand).of(event)


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
