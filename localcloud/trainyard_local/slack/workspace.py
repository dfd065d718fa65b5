"""A workspace with one app: its channels, what is written in them, and what the Web API answers."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard_local.slack.block_kit import InvalidBlocks, check_message, check_view

Json = dict[str, Any]
#: A response_url takes so many answers, and for so long.
MOST_ANSWERS, ANSWER_SECONDS = 5, 1800.0
#: A trigger opens one view, and only just after the person did something.
TRIGGER_SECONDS = 3.0


@dataclass
class Channel:
    """`members`: whether the app's bot is one of its members."""

    id: str
    name: str
    archived: bool = False
    has_bot: bool = True


@dataclass
class Asked:
    """An address for answers to one request of one person."""

    channel: str
    user: str
    until: float
    message: Json | None = None
    left: int = MOST_ANSWERS


class ApiError(Exception):
    """Slack's own word for why it refuses a call."""

    def __init__(self, error: str, detail: str = "") -> None:
        super().__init__(error)
        self.error, self.detail = error, detail


@dataclass
class Workspace:
    """Everything of it is under one lock; a message is what its channel shows now."""

    token: str
    secret: str
    team: str = "T0123ABCD"
    app: str = "A0123ABCD"
    bot_user: str = "U0BOT"
    clock: Callable[[], float] = time.time
    channels: dict[str, Channel] = field(default_factory=dict)
    messages: dict[str, Json] = field(default_factory=dict)
    views: dict[str, Json] = field(default_factory=dict)
    homes: dict[str, Json] = field(default_factory=dict)
    #: The app's calls, as (method, error or '').
    calls: list[tuple[str, str]] = field(default_factory=list)
    #: Seconds of the next answers 429, one each call.
    limits: list[int] = field(default_factory=list)
    installed: bool = True

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self._addresses: dict[str, Asked] = {}
        self._triggers: dict[str, float] = {}
        self._made = 0

    def add_channel(self, id_: str, name: str) -> Channel:
        self.channels[id_] = Channel(id_, name)
        return self.channels[id_]

    def id(self, prefix: str) -> str:
        with self.lock:
            self._made += 1
            return f"{prefix}{self._made:06}"

    # what the app asks for
    def call(self, method: str, arguments: Json, token: str) -> tuple[int, Json, dict[str, str]]:
        """Status, answer and headers of a method of the Web API."""
        with self.lock:
            if self.limits:
                seconds = self.limits.pop(0)
                self.calls.append((method, "ratelimited"))
                answer = {"ok": False, "error": "ratelimited"}
                return 429, answer, {"Retry-After": str(seconds)}
            try:
                self._allowed(token)
                answer = self._answer(method, arguments)
            except ApiError as refused:
                self.calls.append((method, refused.error))
                details = {"messages": [refused.detail]} if refused.detail else {}
                answer = {"ok": False, "error": refused.error, "response_metadata": details}
                return 200, answer, {}
            self.calls.append((method, ""))
            return 200, {"ok": True, **answer}, {}

    def _allowed(self, token: str) -> None:
        if not token:
            raise ApiError("not_authed")
        if token != self.token:
            raise ApiError("invalid_auth")
        if not self.installed:
            raise ApiError("account_inactive")

    def _answer(self, method: str, arguments: Json) -> Json:
        known: Mapping[str, Callable[[Json], Json]] = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.replies": self._replies,
            "views.open": self._open,
            "views.publish": self._publish,
        }
        if method not in known:
            raise ApiError("unknown_method")
        return known[method](arguments)

    def _auth_test(self, arguments: Json) -> Json:
        return {
            "url": "https://example.slack.com/",
            "team": "example",
            "team_id": self.team,
            "user": "trainyard",
            "user_id": self.bot_user,
            "bot_id": "B0BOT",
            "is_enterprise_install": False,
        }

    def _channel(self, arguments: Json) -> Channel:
        channel = self.channels.get(str(arguments.get("channel")))
        if channel is None:
            raise ApiError("channel_not_found")
        if channel.archived:
            raise ApiError("is_archived")
        if not channel.has_bot:
            raise ApiError("not_in_channel")
        return channel

    def _post(self, arguments: Json) -> Json:
        channel = self._channel(arguments)
        parent = arguments.get("thread_ts")
        if parent and parent not in self.messages:
            raise ApiError("thread_not_found")
        return self._shown(self._write(channel.id, _checked(arguments), thread=parent))

    def _shown(self, message: Json) -> Json:
        return {"channel": message["channel"], "ts": message["ts"], "message": message}

    def _write(self, channel: str, content: Json, *, thread: Any = None, only: str = "") -> Json:
        self._made += 1
        ts = f"{int(self.clock())}.{self._made:06}"
        message = {"type": "message", "ts": ts, "channel": channel, "bot_id": "B0BOT", **content}
        message |= {"thread_ts": thread} if thread else {}
        message |= {"only": only} if only else {}
        self.messages[ts] = message
        return message

    def _update(self, arguments: Json) -> Json:
        channel = self._channel(arguments)
        message = self.messages.get(str(arguments.get("ts")))
        if message is None or message["channel"] != channel.id or "only" in message:
            raise ApiError("message_not_found")
        message |= _checked(arguments)
        message["edited"] = {"user": self.bot_user, "ts": f"{self.clock():.6f}"}
        return self._shown(message)

    def _replies(self, arguments: Json) -> Json:
        channel, ts = self._channel(arguments), arguments.get("ts")
        if ts not in self.messages:
            raise ApiError("thread_not_found")
        found = [
            one for one in self.of_channel(channel.id) if ts in (one["ts"], one.get("thread_ts"))
        ]
        return {"messages": copy.deepcopy(found), "has_more": False}

    def _open(self, arguments: Json) -> Json:
        given = self._triggers.pop(str(arguments.get("trigger_id")), None)
        if given is None:
            raise ApiError("invalid_trigger_id")
        if self.clock() - given > TRIGGER_SECONDS:
            raise ApiError("expired_trigger_id")
        return {"view": self._view(arguments, "modal")}

    def _publish(self, arguments: Json) -> Json:
        view = self._view(arguments, "home")
        self.homes[str(arguments.get("user_id"))] = view
        return {"view": view}

    def _view(self, arguments: Json, kind: str) -> Json:
        view = arguments.get("view")
        try:
            if not isinstance(view, dict) or view.get("type") != kind:
                raise InvalidBlocks(f"view.type must be {kind}")
            check_view(view)
        except InvalidBlocks as wrong:
            raise ApiError("invalid_arguments", str(wrong)) from None
        made = {**copy.deepcopy(view), "id": self.id("V"), "team_id": self.team}
        self.views[made["id"]] = made
        return made

    # what persons do
    def trigger(self) -> str:
        """A trigger for one view, from now on."""
        with self.lock:
            made = f"1353.{self.id('7384')}"
            self._triggers[made] = self.clock()
            return made

    def address(self, channel: str, user: str, message: Json | None = None) -> str:
        """The path of a new response_url."""
        with self.lock:
            path = f"/{'actions' if message else 'commands'}/{self.team}/{self.id('')}"
            until = self.clock() + ANSWER_SECONDS
            self._addresses[path] = Asked(channel, user, until, message)
            return path

    def answer(self, path: str, content: Json) -> tuple[int, str]:
        """Status and text for what was sent to a response_url."""
        with self.lock:
            asked = self._addresses.get(path)
            if asked is None or self.clock() > asked.until:
                return 404, "expired_url"
            if asked.left == 0:
                return 404, "used_url"
            try:
                self._respond(asked, content)
            except ApiError as refused:
                return 400, refused.error
            asked.left -= 1
            return 200, "ok"

    def _respond(self, asked: Asked, content: Json) -> None:
        before = asked.message
        if content.get("delete_original"):
            if before is not None:
                self.messages.pop(before["ts"], None)
            return
        shown = _checked(content)
        if content.get("replace_original") and before is not None:
            before |= shown
            return
        only = "" if content.get("response_type") == "in_channel" else asked.user
        self._write(asked.channel, shown, only=only)

    def say(self, channel: str, user: str, text: str) -> None:
        """What the app answered at once to one person."""
        with self.lock:
            self._write(channel, {"text": text}, only=user)

    def of_channel(self, channel: str) -> list[Json]:
        """Oldest first."""
        with self.lock:
            found = [one for one in self.messages.values() if one["channel"] == channel]
            return sorted(found, key=lambda one: str(one["ts"]))


def _checked(arguments: Json) -> Json:
    """The message's content, if Slack takes it."""
    content: Json = {name: arguments[name] for name in ("text", "blocks") if name in arguments}
    try:
        check_message(content)
    except InvalidBlocks as wrong:
        error = "no_text" if str(wrong) == "no_text" else "invalid_blocks"
        raise ApiError(error, str(wrong)) from None
    copied: Json = json.loads(json.dumps(content))
    return copied
