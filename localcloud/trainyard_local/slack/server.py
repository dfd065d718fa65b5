"""The workspace's addresses on loopback, and what it sends to the app, signed as Slack signs."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from trainyard_local.slack.workspace import Json, Workspace

#: Slack waits so long for the app's answer.
WAITS_SECONDS = 3.0
#: Arguments that are JSON in a form.
_OF_JSON = ("blocks", "view", "metadata")


class NotAcknowledged(Exception):
    """The app did not answer in time, or not with 200; a person sees a warning."""


@dataclass
class LocalSlack:
    """A workspace that listens; `url` is where. The app's own addresses are given when known."""

    workspace: Workspace
    url: str = ""
    commands_url: str = ""
    interactions_url: str = ""
    events_url: str = ""

    @property
    def api(self) -> str:
        """What the addresses of the Web API begin with."""
        return f"{self.url}api/"

    def command(self, text: str, *, user: str, channel: str, name: str = "/trainyard") -> None:
        """A person types. Raises NotAcknowledged."""
        space = self.workspace
        fields = {
            "token": "gIkuvaNzQIHg97ATvDxqgjtO",
            "team_id": space.team,
            "team_domain": "example",
            "channel_id": channel,
            "channel_name": space.channels[channel].name,
            "user_id": user,
            "user_name": user.lower(),
            "command": name,
            "text": text,
            "api_app_id": space.app,
            "is_enterprise_install": "false",
            "response_url": self.url.rstrip("/") + space.address(channel, user),
            "trigger_id": space.trigger(),
        }
        kind, body = self.send(self.commands_url, urlencode(fields).encode())
        if body:
            said = json.loads(body).get("text", "") if "json" in kind else body.decode()
            space.say(channel, user, said)

    def click(self, message: Json, label: str, *, user: str) -> None:
        """A person clicks the button with this label, and says yes. Raises NotAcknowledged."""
        space = self.workspace
        path = space.address(message["channel"], user, message)
        place = {
            "container": {
                "type": "message",
                "message_ts": message["ts"],
                "channel_id": message["channel"],
                "is_ephemeral": "only" in message,
            },
            "channel": {
                "id": message["channel"],
                "name": space.channels[message["channel"]].name,
            },
            "message": message,
            "state": {"values": {}},
            "response_url": self.url.rstrip("/") + path,
        }
        self._clicked(_button(message, label), user, place)

    def click_home(self, label: str, *, user: str) -> None:
        """The same in the app's home, which has no response_url. Raises NotAcknowledged."""
        view = self.workspace.homes[user]
        container = {"type": "view", "view_id": view["id"]}
        self._clicked(_button(view, label), user, {"container": container, "view": view})

    def _clicked(self, button: Json, user: str, place: Json) -> None:
        stamp = f"{self.workspace.clock():.6f}"
        action = {**button, "block_id": "b1", "action_ts": stamp}
        self._interact({**self._payload("block_actions", user), **place, "actions": [action]})

    def submit(self, view: Json, values: Json, *, user: str) -> Json:
        """A person sends a modal; what the app answers, {} if that closes it."""
        shown = {**view, "state": {"values": values}, "hash": "1.x"}
        body = self._interact({**self._payload("view_submission", user), "view": shown})
        return dict(json.loads(body)) if body else {}

    def open_home(self, *, user: str) -> None:
        """A person opens the app's home; Slack sends what it shows there, if that is anything."""
        event = {"type": "app_home_opened", "user": user, "channel": "D0HOME", "tab": "home"}
        shown = self.workspace.homes.get(user)
        self.event({**event, "view": shown} if shown else event)

    def challenge(self) -> bytes:
        """What Slack asks of a new address for events, and the app's answer."""
        content = {
            "token": "gIkuvaNzQIHg97ATvDxqgjtO",
            "challenge": self.workspace.id("3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"),
            "type": "url_verification",
        }
        body = json.dumps(content).encode()
        kind, answer = self.send(self.events_url, body, "application/json")
        said = json.loads(answer).get("challenge") if "json" in kind else answer.decode()
        if said != content["challenge"]:
            raise NotAcknowledged(f"{self.events_url}: it does not answer with the challenge")
        return answer

    def event(self, event: Json) -> bytes:
        """Something happened that the app subscribed to."""
        space = self.workspace
        stamp = int(space.clock())
        content = {
            "token": "gIkuvaNzQIHg97ATvDxqgjtO",
            "team_id": space.team,
            "api_app_id": space.app,
            "event": {**event, "event_ts": f"{stamp}.000001"},
            "type": "event_callback",
            "event_id": space.id("Ev"),
            "event_time": stamp,
            "authorizations": [{"team_id": space.team, "user_id": space.bot_user, "is_bot": True}],
        }
        body = json.dumps(content).encode()
        return self.send(self.events_url, body, "application/json")[1]

    def _payload(self, kind: str, user: str) -> Json:
        space = self.workspace
        return {
            "type": kind,
            "user": {
                "id": user, "username": user.lower(), "name": user.lower(), "team_id": space.team,
            },
            "api_app_id": space.app,
            "token": "gIkuvaNzQIHg97ATvDxqgjtO",
            "trigger_id": space.trigger(),
            "team": {"id": space.team, "domain": "example"},
            "enterprise": None,
            "is_enterprise_install": False,
        }  # fmt: skip

    def _interact(self, payload: Json) -> bytes:
        body = urlencode({"payload": json.dumps(payload)}).encode()
        return self.send(self.interactions_url, body)[1]

    def send(
        self, address: str, body: bytes, kind: str = "application/x-www-form-urlencoded"
    ) -> tuple[str, bytes]:
        """Content type and body of the app's answer. Raises NotAcknowledged."""
        url = urlsplit(address)
        stamp = str(int(self.workspace.clock()))
        headers = {
            "Content-Type": kind,
            "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": signature(self.workspace.secret, stamp, body),
        }
        connection = http.client.HTTPConnection(url.netloc, timeout=WAITS_SECONDS)
        try:
            connection.request("POST", url.path, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            raise NotAcknowledged(f"{address}: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise NotAcknowledged(f"{address}: {answer.status} {content[:200]!r}")
        return answer.headers.get("Content-Type", ""), content


def signature(secret: str, stamp: str, body: bytes) -> str:
    """https://docs.slack.dev/authentication/verifying-requests-from-slack"""
    whole = b"v0:" + stamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), whole, hashlib.sha256).hexdigest()


def _button(message: Mapping[str, Any], label: str) -> Json:
    """Raises LookupError with the labels that are there."""
    found = {
        one["text"]["text"]: one
        for block in message.get("blocks", [])
        if block["type"] == "actions"
        for one in block["elements"]
    }
    if label not in found:
        raise LookupError(f"the message has no button '{label}', only {sorted(found)}")
    return dict(found[label])


@contextmanager
def listening(workspace: Workspace) -> Iterator[LocalSlack]:
    """On loopback, at a port of its own."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, kind = self.path.partition("?")[0], self.headers.get("Content-Type") or ""
            headers: dict[str, str] = {}
            try:
                arguments = _arguments(kind, content)
            except ValueError:
                self._send(400, "text/plain", b"invalid_json", headers)
                return
            if path.startswith("/api/"):
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ").strip()
                token = token or str(arguments.get("token", ""))
                method = path.removeprefix("/api/")
                status, answer, headers = workspace.call(method, arguments, token)
                self._send(status, "application/json", json.dumps(answer).encode(), headers)
                return
            status, said = workspace.answer(path, arguments)
            self._send(status, "text/plain", said.encode(), headers)

        def _send(self, status: int, kind: str, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Type": kind}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    slack = LocalSlack(workspace, f"http://127.0.0.1:{server.server_port}/")
    threading.Thread(target=server.serve_forever, daemon=True, name="slack").start()
    try:
        yield slack
    finally:
        server.shutdown()
        server.server_close()


def _arguments(kind: str, content: bytes) -> Json:
    """Of JSON or of a form. Raises ValueError."""
    if kind.startswith("application/json"):
        given = json.loads(content or b"{}")
        if not isinstance(given, dict):
            raise ValueError("an object")
        return given
    form: Json = dict(parse_qsl(content.decode()))
    for name in _OF_JSON:
        if name in form:
            form[name] = json.loads(form[name])
    return form
