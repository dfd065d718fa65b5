"""What a person typed or clicked in Slack, as the function that verified it put it on the bus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Self

from trainyard.chat.front.mistakes import DENY, SUBMIT

#: What the front puts into the details of the kinds of events.
_OPENED = ("id", "team", "user")
_TYPED = (*_OPENED, "command", "responseUrl")
_CLICKED = (*_OPENED, "action", "value")
_SENT = (*_OPENED, "form", "about", "values")
#: The form that submits a run; functions/slack takes those in whose names begin as our buttons'.
FORM = SUBMIT
#: What each form says of itself.
_ABOUT = {SUBMIT: ("run", "url"), DENY: ("approval",)}
#: Where a click was made that has no response_url.
HOME = "home"


@dataclass(frozen=True, kw_only=True)
class SlackRequest:
    """`id` is the same however often the request comes.

    `place` is HOME where the answer is another home of that person, and not a message.
    """

    id: str
    at: datetime
    team: str
    user: str
    response_url: str = ""
    place: str = ""

    @property
    def who(self) -> str:
        """As the list of people names them: names in Slack change, these ids do not."""
        return f"{self.team}/{self.user}"


@dataclass(frozen=True, kw_only=True)
class SlackHome(SlackRequest):
    """A person opened the app's home."""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Raises ValueError with what is wrong."""
        return cls(**_common({**_detail(event, _OPENED), "place": HOME}))


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class SlackClick(SlackRequest):
    """A button of ours; `value` is what its message, or the home, gave it to carry."""

    action: str
    value: str
    #: As a command's.
    trigger: str = ""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Raises ValueError with what is wrong."""
        detail = _detail(event, _CLICKED)
        return cls(
            **_common(detail),
            action=detail["action"],
            value=detail["value"],
            trigger=str(detail.get("trigger") or ""),
        )


@dataclass(frozen=True, kw_only=True)
class SlackForm(SlackRequest):
    """A form that was sent: what it was opened about, and what its fields hold now."""

    form: str
    about: Mapping[str, str]
    values: Mapping[str, str]

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Raises ValueError with what is wrong."""
        detail = _detail(event, _SENT)
        about, values = _object("about", detail["about"]), _object("values", detail["values"])
        for name in _ABOUT.get(detail["form"], ()):
            if not isinstance(about.get(name), str) or not about[name]:
                raise ValueError(f"detail.about.{name} must be a text")
        at = {"responseUrl": about.get("url"), "place": about.get("place")}
        return cls(
            **_common({**detail, **at}),
            form=detail["form"],
            about={str(name): str(value) for name, value in about.items()},
            values={str(name): str(value or "") for name, value in values.items()},
        )

    @property
    def run(self) -> str:
        """That filled the form in; '' of none."""
        return self.about.get("run", "")


def _object(name: str, text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"detail.{name} must be a JSON object")
    return found


Asked = SlackCommand | SlackClick | SlackForm | SlackHome
#: By the detail-type that the front gives them.
_KINDS: Mapping[object, type[Asked]] = {
    "SlackClick": SlackClick,
    "SlackForm": SlackForm,
    "SlackHome": SlackHome,
}


def request_of(event: Mapping[str, Any]) -> Asked:
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
    place = HOME if detail.get("place") == HOME else ""
    url = detail.get("responseUrl")
    if not place and not (isinstance(url, str) and url):
        raise ValueError("detail.responseUrl must be a text")
    return {
        "id": detail["id"],
        "at": datetime.fromtimestamp(detail["at"], timezone.utc),
        "team": detail["team"],
        "user": detail["user"],
        "response_url": "" if place else url,
        "place": place,
    }
