"""Calls of Slack's Web API: what Slack takes, refuses, and wants to have later."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from trainyard.chat.web_api import Limited, SlackRefused, WebApi
from trainyard.domain.errors import RetryableError

pytestmark = pytest.mark.real
TOKEN = "xoxb-1-2-abc"


@dataclass
class Server:
    url: str = ""
    answer: tuple[int, dict[str, str], bytes] = (200, {}, b'{"ok": true, "ts": "1.1"}')
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            made.asked.append((self.path, dict(self.headers), json.loads(content)))
            status, headers, body = made.answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    made.url = f"http://127.0.0.1:{listening.server_port}/api/"
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        listening.shutdown()
        listening.server_close()


def called(server: Server, token: str | None = TOKEN) -> dict[str, Any]:
    return WebApi(server.url, lambda: token).call("chat.postMessage", {"text": "ä"})


def test_a_call_has_the_token_and_its_arguments_as_json(server: Server) -> None:
    assert called(server, f" {TOKEN}\n")["ts"] == "1.1"
    ((path, headers, arguments),) = server.asked
    assert (path, arguments) == ("/api/chat.postMessage", {"text": "ä"})
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Content-Type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("said", "seconds"), [("17", 17), ("", 30), ("soon", 30), ("0", 1), ("99999999", 86_400)]
)
def test_a_429_says_for_how_long(server: Server, said: str, seconds: int) -> None:
    server.answer = (429, {"Retry-After": said}, b"")
    with pytest.raises(Limited) as limited:
        called(server)
    assert limited.value.seconds == seconds


@pytest.mark.parametrize("error", ["is_archived", "token_revoked", "invalid_auth"])
def test_a_refusal_has_slacks_own_word(server: Server, error: str) -> None:
    server.answer = (200, {}, json.dumps({"ok": False, "error": error}).encode())
    with pytest.raises(SlackRefused) as refused:
        called(server)
    assert refused.value.error == error


@pytest.mark.parametrize(
    "answer",
    [
        (503, {}, b""),
        (302, {"Location": "http://127.0.0.1:9/"}, b""),
        (200, {}, b"<html>"),
        (200, {}, b'["ok"]'),
        (200, {}, b'{"ok": false, "error": "internal_error"}'),
    ],
)
def test_slack_in_trouble_may_take_it_later(
    server: Server, answer: tuple[int, dict[str, str], bytes]
) -> None:
    server.answer = answer
    with pytest.raises(RetryableError):
        called(server)


def test_nobody_there_is_trouble_too(server: Server) -> None:
    server.url = "http://127.0.0.1:9/api/"
    with pytest.raises(RetryableError):
        called(server)


@pytest.mark.parametrize("token", [None, "", "8f742231b10e8888abcd99yyyzzz85a5"])
def test_what_is_no_token_goes_to_nobody(server: Server, token: str | None) -> None:
    with pytest.raises(SlackRefused, match="SlackBotTokenArn"):
        called(server, token)
    assert server.asked == []


def test_a_limit_that_comes_as_an_answer_is_one_too(server: Server) -> None:
    server.answer = (200, {}, b'{"ok": false, "error": "ratelimited"}')
    with pytest.raises(Limited):
        called(server)
