"""Slack as far as Trainyard meets it: requests that it signs, and what it takes as an answer.

slack_sdk signs the requests and reads the blocks. The limits are those of Slack's reference of
blocks, written down here apart from the code that keeps them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode

from slack_sdk.models.blocks import Block
from slack_sdk.signature import SignatureVerifier

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"  # of the example in Slack's documentation
TEAM, USER = "T0123ABCD", "U0456EFGH"
WHO = f"{TEAM}/{USER}"
FIELDS = {
    "token": "gIkuvaNzQIHg97ATvDxqgjtO",
    "team_id": TEAM,
    "team_domain": "example",
    "channel_id": "C2147483705",
    "channel_name": "test",
    "user_id": USER,
    "user_name": "steve",
    "command": "/trainyard",
    "text": "runs",
    "api_app_id": "A123456",
    "is_enterprise_install": "false",
    "response_url": "https://hooks.slack.com/commands/T0123ABCD/1/x",
    "trigger_id": "13345224609.738474920.8088930838d88f008e0",
}


def command(**changes: str) -> bytes:
    """The body of a slash command."""
    return urlencode({**FIELDS, **changes}).encode()


def signed(
    body: bytes, now: float, secret: str = SECRET, kind: str = "application/x-www-form-urlencoded"
) -> dict[str, str]:
    """The headers with which Slack sends it."""
    stamp = str(int(now))
    made = SignatureVerifier(secret).generate_signature(timestamp=stamp, body=body)
    return {
        "content-type": kind,
        "user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": str(made),
    }


def check_message(message: dict[str, Any]) -> None:
    """Raises AssertionError where Slack would refuse the message, or it would ping somebody."""
    if message.get("replace_original") is not True:
        assert message["response_type"] == "ephemeral"
    check_blocks(message)


def check_blocks(message: dict[str, Any], mentions: tuple[str, ...] = ()) -> None:
    """The same of a message that a channel sees, which may mention these people."""
    assert message["text"]
    blocks = message["blocks"]
    assert 1 <= len(blocks) <= 50
    _parts(blocks)
    _check_pings(message, mentions)


def check_parts(blocks: list[dict[str, Any]]) -> None:
    """The same of the blocks of a view, in which nobody is mentioned."""
    _parts(blocks)
    _check_pings(blocks, ())


def _parts(blocks: list[dict[str, Any]]) -> None:
    for block in blocks:
        _check_block(block)
    for block in Block.parse_all(blocks):
        block.validate_json()
    assert [block.to_dict() for block in Block.parse_all(blocks)] == blocks


def _check_pings(content: object, mentions: tuple[str, ...]) -> None:
    words = json.dumps(_shown(content))
    for mention in mentions:
        words = words.replace(mention, "")
    for ping in ("<!channel", "<!here", "<!everyone", "<@", "<#", "<http"):
        assert ping not in words


def _shown(content: Any) -> Any:
    """Without what buttons carry, which nobody sees."""
    if isinstance(content, dict):
        carries = content.get("type") == "button"
        return {
            name: _shown(one) for name, one in content.items() if not (carries and name == "value")
        }
    return [_shown(one) for one in content] if isinstance(content, list | tuple) else content


def _check_block(block: dict[str, Any]) -> None:
    kind = block["type"]
    if kind == "header":
        assert block["text"]["type"] == "plain_text"
        assert 1 <= len(block["text"]["text"]) <= 150
    elif kind == "section":
        assert 1 <= len(block["text"]["text"]) <= 3000
    elif kind == "actions":
        assert 1 <= len(block["elements"]) <= 25
        assert len({one["action_id"] for one in block["elements"]}) == len(block["elements"])
        for one in block["elements"]:
            _check_button(one)
    elif kind == "input":
        assert 1 <= len(block["label"]["text"]) <= 2000
        assert block["element"]["type"] == "plain_text_input"
    else:
        assert kind == "context"
        assert 1 <= len(block["elements"]) <= 10


def _check_button(button: dict[str, Any]) -> None:
    assert button["type"] == "button"
    assert 1 <= len(button["action_id"]) <= 255
    assert 1 <= len(button["text"]["text"]) <= 75
    assert 1 <= len(button["value"]) <= 2000
    confirm = button.get("confirm")
    if confirm is not None:
        assert 1 <= len(confirm["title"]["text"]) <= 100
        assert 1 <= len(confirm["text"]["text"]) <= 300
        assert 1 <= len(confirm["confirm"]["text"]) <= 30
        assert 1 <= len(confirm["deny"]["text"]) <= 30


def click(button: dict[str, Any], **changes: Any) -> bytes:
    """The body of a click of a button in a message that only its person sees."""
    action = {**button, "block_id": "b1", "action_ts": "1531420618.1"}
    payload = {
        "type": "block_actions",
        "user": {"id": USER, "username": "steve", "name": "steve", "team_id": TEAM},
        "api_app_id": "A123456",
        "token": FIELDS["token"],
        "container": {
            "type": "message",
            "message_ts": "1531420617.000100",
            "channel_id": FIELDS["channel_id"],
            "is_ephemeral": True,
        },
        "trigger_id": "12466734323.1395872398",
        "team": {"id": TEAM, "domain": "example"},
        "enterprise": None,
        "is_enterprise_install": False,
        "channel": {"id": FIELDS["channel_id"], "name": "test"},
        "state": {"values": {}},
        "response_url": "https://hooks.slack.com/actions/T0123ABCD/1/x",
        "actions": [action],
        **changes,
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


def happening(event: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """The body of an event, by default that a person opened the home."""
    opened = {"type": "app_home_opened", "user": USER, "channel": "D0123ABCD", "tab": "home"}
    return json.dumps(
        {
            "token": FIELDS["token"],
            "team_id": TEAM,
            "api_app_id": "A123456",
            "event": {"event_ts": "1531420618.000001", **(opened if event is None else event)},
            "type": "event_callback",
            "event_id": "Ev0PV52K25",
            "event_time": 1_796_000_000,
            **changes,
        }
    ).encode()


def submission(view: dict[str, Any], values: dict[str, str | None], **changes: Any) -> bytes:
    """The body of a form that a person sent, its fields' blocks called like the fields."""
    state = {
        name: {name: {"type": "plain_text_input", "value": value}} for name, value in values.items()
    }
    payload = {
        "type": "view_submission",
        "team": {"id": TEAM, "domain": "example"},
        "user": {"id": USER, "username": "steve", "name": "steve", "team_id": TEAM},
        "api_app_id": "A123456",
        "token": FIELDS["token"],
        "trigger_id": "12466734323.1395872399",
        "view": {"id": "V1", **view, "state": {"values": state}, "hash": "156663117.cd33ad1f"},
        "response_urls": [],
        **changes,
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


@dataclass
class LocalSlack:
    """The addresses that response_urls lead to: each takes five answers, as Slack's do."""

    url: str = ""
    taken: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    #: What it answers in place of 200, once each.
    troubles: list[int] = field(default_factory=list)

    def response_url(self, name: str) -> str:
        return f"{self.url}commands/{TEAM}/{name}"

    def answers(self, name: str) -> list[dict[str, Any]]:
        return self.taken.get(f"/commands/{TEAM}/{name}", [])

    def take(self, path: str, content: bytes) -> int:
        if self.troubles:
            return self.troubles.pop(0)
        message = json.loads(content)
        check_message(message)
        before = self.taken.setdefault(path, [])
        if len(before) == 5:
            return 404
        before.append(message)
        return 200


@contextmanager
def local_slack() -> Iterator[LocalSlack]:
    slack = LocalSlack()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                status = slack.take(self.path, content)
            except (AssertionError, ValueError, KeyError):
                status = 400
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    slack.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield slack
    finally:
        server.shutdown()
        server.server_close()
