"""A spot instance hears of its end from its metadata, by version 2 of the service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from trainyard_agent.nodes.spot_watch import SpotWatch

pytestmark = pytest.mark.real
AT = "2026-11-24T10:00:00Z"


class Service:
    """What one endpoint knows; `action` is what it says of the end of the instance."""

    action: str | None = None
    token = "t-1"
    tokens_given = 0


@pytest.fixture
def service() -> Iterator[tuple[Service, str]]:
    state = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            good = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "").isdecimal()
            state.tokens_given += 1
            self._say(200 if good else 400, state.token)

        def do_GET(self) -> None:
            if self.headers.get("X-aws-ec2-metadata-token") != state.token:
                self._say(401, "")
            elif state.action is None or not self.path.endswith("/spot/instance-action"):
                self._say(404, "")
            else:
                self._say(200, state.action)

        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state, f"http://127.0.0.1:{server.server_address[1]}/below"
    server.shutdown()
    server.server_close()


def test_nothing_is_said_until_ec2_wants_it_back(service: tuple[Service, str]) -> None:
    state, endpoint = service
    watch = SpotWatch(endpoint)
    assert watch.look() is None
    state.action = json.dumps({"action": "terminate", "time": AT})
    assert watch.look() == AT
    assert state.tokens_given == 1, "a token serves for many questions"


def test_a_token_that_is_too_old_is_asked_for_again(service: tuple[Service, str]) -> None:
    state, endpoint = service
    watch = SpotWatch(endpoint)
    watch.look()
    state.token, state.action = "t-2", json.dumps({"action": "stop", "time": AT})
    assert watch.look() is None
    assert watch.look() == AT


@pytest.mark.parametrize("said", ['{"action": "none"}', '{"action": "noop", "time": "x"}'])
def test_what_ends_nothing_is_no_notice(service: tuple[Service, str], said: str) -> None:
    state, endpoint = service
    state.action = said.replace('"none"', '"none", "time": "x"')
    assert SpotWatch(endpoint).look() is None


def test_a_service_that_is_not_there_is_an_error_that_passes() -> None:
    with pytest.raises(OSError, match="refused"):
        SpotWatch("http://127.0.0.1:9").look()
