"""What answering Slack needs beside the ports, in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.memory import World
from tests.support.slack import FIELDS, TEAM, USER, WHO, check_message, check_parts

from trainyard.chat.web_api import SlackRefused
from trainyard.chat.worker import Answered, Chat, answer
from trainyard.domain.errors import RetryableError
from trainyard.domain.people import RolesOfPeople
from trainyard_local.slack.block_kit import check_view

ALICE = "arn:aws:iam::111122223333:user/alice"


@dataclass
class MemoryClaims:
    """No time passes: what one that died took stays in its hand."""

    states: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)

    def take(self, request_id: str) -> bool:
        if request_id in self.states:
            return False
        self.states[request_id] = "in hand"
        return True

    def settle(self, request_id: str, outcome: str = "") -> None:
        self.states[request_id] = "answered"
        self.outcomes[request_id] = outcome

    def outcome(self, request_id: str) -> str:
        return self.outcomes.get(request_id, "")

    def give_back(self, request_id: str) -> None:
        del self.states[request_id]

    def hold(self, request_id: str, seconds: int) -> None:
        assert seconds > 0
        self.states[request_id] = "held"

    def let_go(self) -> None:
        """As when the time of all that is held is over."""
        self.states = {name: how for name, how in self.states.items() if how != "held"}


@dataclass
class MemoryReplies:
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    refusal: str = ""
    down: bool = False

    def send(self, url: str, message: dict[str, Any]) -> str:
        if self.down:
            raise RetryableError("Slack answered 503")
        check_message(message)
        if not self.refusal:
            self.sent.append((url, message))
        return self.refusal


@dataclass
class MemoryViews:
    """Forms that were opened, and homes; `refuses` is Slack's word for why it takes none."""

    opened: list[dict[str, Any]] = field(default_factory=list)
    homes: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuses: str = ""
    #: Raised in place of an answer, one each call.
    troubles: list[Exception] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def call(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self.troubles:
            raise self.troubles.pop(0)
        if self.refuses:
            raise SlackRefused(self.refuses)
        self.calls.append(method)
        check_view(arguments["view"])
        check_parts(arguments["view"]["blocks"])
        if method == "views.publish":
            assert arguments["view"]["type"] == "home"
            self.homes[arguments["user_id"]] = arguments["view"]
            return {"ok": True}
        assert method == "views.open"
        assert arguments["view"]["type"] == "modal"
        assert arguments["trigger_id"]
        self.opened.append(arguments["view"])
        return {"ok": True}


@dataclass
class Slack:
    """A workspace beside a world: `say` types a command and returns what its person reads."""

    world: World = field(default_factory=World)
    people: str | None = field(default_factory=lambda: json.dumps({WHO: ALICE}))
    claims: MemoryClaims = field(default_factory=MemoryClaims)
    replies: MemoryReplies = field(default_factory=MemoryReplies)
    typed: int = 0
    views: MemoryViews | None = None

    def event(self, text: str, *, user: str = USER) -> dict[str, Any]:
        """As the bus brings it to the worker."""
        self.typed += 1
        detail = {
            "id": f"{self.typed:064x}",
            "at": int(self.world.clock.now().timestamp()),
            "team": TEAM,
            "user": user,
            "command": "/trainyard",
            "text": text,
            "trigger": FIELDS["trigger_id"],
            "responseUrl": FIELDS["response_url"],
        }
        return {"source": "trainyard.slack", "detail": detail}

    def deliver(self, event: dict[str, Any]) -> Answered:
        chat = Chat(self.claims, self.replies, lambda: self.people, self.views)
        return answer(self.world.ports, chat, event)

    def form(self, text: str) -> dict[str, Any]:
        """The form that this command opens."""
        self.views = self.views or MemoryViews()
        assert self.deliver(self.event(text)).reason == "a form is open"
        return self.views.opened[-1]

    def send(self, view: dict[str, Any], *, user: str = USER, **changes: str) -> dict[str, Any]:
        """The message that follows a form that was sent with these fields changed."""
        assert self.deliver(self.sending(view, user=user, **changes)).result == "answered"
        return self.newest

    def sending(self, view: dict[str, Any], *, user: str = USER, **changes: str) -> dict[str, Any]:
        """The event of a form that was sent."""
        self.typed += 1
        detail = {
            "id": f"{self.typed:064x}",
            "at": int(self.world.clock.now().timestamp()),
            "team": TEAM,
            "user": user,
            "form": view["callback_id"],
            "about": view["private_metadata"],
            "values": json.dumps({**filled(view), **changes}),
        }
        return {"source": "trainyard.slack", "detail-type": "SlackForm", "detail": detail}

    def home_event(self, *, user: str = USER) -> dict[str, Any]:
        """As the bus brings it that a person opened the home."""
        self.typed += 1
        at = int(self.world.clock.now().timestamp())
        detail = {"id": f"{self.typed:064x}", "at": at, "team": TEAM, "user": user}
        return {"source": "trainyard.slack", "detail-type": "SlackHome", "detail": detail}

    def home(self, *, user: str = USER) -> str:
        """What a person reads in the home that they open."""
        assert self.views is not None
        assert self.deliver(self.home_event(user=user)).result == "answered"
        return words(self.views.homes[user])

    def say(self, text: str, *, user: str = USER) -> str:
        before = len(self.replies.sent)
        answered = self.deliver(self.event(text, user=user))
        assert answered.result == "answered", answered
        (reply,) = self.replies.sent[before:]
        return words(reply[1])

    def click(
        self, label: str, message: dict[str, Any], *, user: str = USER, at: float = 0
    ) -> dict[str, Any]:
        """The event of a click of this message's button, some seconds from now."""
        self.typed += 1
        (pressed,) = [one for one in buttons_of(message) if one["text"]["text"] == label]
        detail = {
            "id": f"{self.typed:064x}",
            "at": int(self.world.clock.now().timestamp() + at),
            "team": TEAM,
            "user": user,
            "action": pressed["action_id"],
            "value": pressed["value"],
            "trigger": FIELDS["trigger_id"],
            "responseUrl": FIELDS["response_url"],
        }
        return {"source": "trainyard.slack", "detail-type": "SlackClick", "detail": detail}

    def click_home(self, label: str, *, user: str = USER) -> dict[str, Any]:
        """The same in the home of this person, of the first button that is called so."""
        assert self.views is not None
        view = self.views.homes[user]
        first = next(one for one in buttons_of(view) if one["text"]["text"] == label)
        event = self.click(label, {"blocks": [{"type": "actions", "elements": [first]}]}, user=user)
        del event["detail"]["responseUrl"]
        event["detail"]["place"] = "home"
        return event

    def press(self, label: str, message: dict[str, Any], *, user: str = USER) -> dict[str, Any]:
        """The message that follows."""
        assert self.deliver(self.click(label, message, user=user)).result == "answered"
        return self.newest

    @property
    def newest(self) -> dict[str, Any]:
        return self.replies.sent[-1][1]

    def asked(self, text: str) -> dict[str, Any]:
        """The message with buttons that answers this command."""
        self.say(text)
        assert buttons_of(self.newest), words(self.newest)
        return self.newest

    def roles(self, **roles: tuple[str, ...]) -> None:
        """Name those of the stack; all others have none."""
        named = RolesOfPeople(**{"admins": (), "members": (), "viewers": (), **roles})
        config = replace(self.world.ports.config, roles=named)
        self.world.ports = replace(self.world.ports, config=config)


def words(message: dict[str, Any]) -> str:
    """All that a person reads of a message, a line a block."""
    return "\n".join(
        part["text"]
        for block in message["blocks"]
        if block["type"] != "actions"
        for part in ([block["text"]] if "text" in block else block.get("elements", []))
    )


def filled(view: dict[str, Any]) -> dict[str, str]:
    """What the fields of a form hold when it opens."""
    return {
        block["element"]["action_id"]: block["element"].get("initial_value", "")
        for block in view["blocks"]
        if block["type"] == "input"
    }


def buttons_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        one for block in message["blocks"] if block["type"] == "actions"
        for one in block["elements"]
    ]  # fmt: skip
