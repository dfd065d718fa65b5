"""What answering Slack needs beside the ports, in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.memory import World
from tests.support.slack import FIELDS, TEAM, USER, WHO, check_message

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
    """Forms that were opened; `refuses` is Slack's word for why it opens none."""

    opened: list[dict[str, Any]] = field(default_factory=list)
    refuses: str = ""

    def call(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        assert method == "views.open"
        assert arguments["trigger_id"]
        if self.refuses:
            raise SlackRefused(self.refuses)
        check_view(arguments["view"])
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
        event = {"source": "trainyard.slack", "detail-type": "SlackForm", "detail": detail}
        assert self.deliver(event).result == "answered"
        return self.newest

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
            "responseUrl": FIELDS["response_url"],
        }
        return {"source": "trainyard.slack", "detail-type": "SlackClick", "detail": detail}

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
        for part in ([block["text"]] if "text" in block else block["elements"])
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
