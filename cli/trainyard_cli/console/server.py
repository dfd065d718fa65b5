"""The server on loopback: it lets a request through the gate, signs it and passes the answer on.

It decides nothing: IAM and Trainyard say what the person behind the credentials may do.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import httpx

from trainyard_sdk.connection import Connection
from trainyard_sdk.problems import InvalidInput, Refused, Unreachable
from trainyard_sdk.signing import SigV4

from . import drafts, files, gate
from .gate import Pass, Refusal
from .once import Once, OtherChange

#: What goes on to the API, and what of its answer goes back.
_ASKED = ("content-type", "if-match", "if-none-match", "idempotency-key")
_ANSWERED = ("etag", "location", "retry-after")
_JSON = ("application/json", "application/problem+json")
#: A browser that sends half a request must not hold a thread for ever.
_PATIENCE_SECONDS = 30.0
_USED = "The link in the terminal is good for one time. Run `trainyard console` again for another."


class Console(ThreadingHTTPServer):
    """One API, one person, one browser. Raises Unreachable if the port is taken."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self,
        connection: Connection,
        port: int = 0,
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # The API gives up after 30 seconds: its answer and not our timeout ends a slow call.
        self.api = httpx.Client(
            auth=SigV4(connection),
            timeout=httpx.Timeout(35.0, connect=5.0),
            transport=transport,
            verify=connection.api_url.startswith("https:"),
            trust_env=connection.local is None,
        )
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise Unreachable(
                "The console cannot have this port",
                f"--port: 127.0.0.1:{port}: {error.strerror}",
                "Give another one, or none: then any that is free is taken",
            ) from error
        self.ours = Pass(self.server_port)
        self.files = files.read()
        self.once = Once()
        self.connection = connection

    @property
    def link(self) -> str:
        """What a person opens, once."""
        return f"{self.ours.origin}/?token={self.ours.token}"

    def server_close(self) -> None:
        super().server_close()
        self.api.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Console
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE_SECONDS
    wbufsize = -1  # head and body in one packet
    server_version, sys_version = "trainyard-console", ""

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, *_: object) -> None:
        """Nothing: lines would have the link's token in them."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses by itself, without its page of HTML."""
        self._refuse(Refusal(code, "Not a request for the console", "request: is not understood"))

    def answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        once = len(self.headers.get_all("host") or []) == 1
        wrong = gate.wrong_place(self.server.ours, headers if once else {}, self.command)
        length = gate.body_length(headers)
        if wrong or isinstance(length, Refusal):
            self._refuse(wrong or length)  # type: ignore[arg-type]
            return
        content = self.rfile.read(length)
        path, _, query = self.path.partition("?")
        if path == "/" and "token" in parse_qs(query):
            self._exchange(parse_qs(query)["token"][0])
        elif not self.server.ours.known(headers.get("cookie", "")):
            detail = "Open the link that `trainyard console` printed."
            self._refuse(Refusal(401, "The console does not know this browser", detail))
        elif path.startswith("/v1/"):
            self._call(headers, content)
        elif (self.command, path) == ("POST", "/spec.json"):
            self._spec(headers, content)
        else:
            self._file(path, headers.get("if-none-match"))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer
    do_HEAD = do_OPTIONS = do_TRACE = do_CONNECT = answer

    def _exchange(self, token: str) -> None:
        ours = self.server.ours
        if self.command != "GET" or not ours.exchanged(token):
            self._refuse(Refusal(403, "This link was used, or is not ours", _USED))
            return
        cookie = f"{ours.cookie_name}={ours.cookie}; HttpOnly; SameSite=Strict; Path=/"
        self._send(303, b"", "text/plain", {"location": "/", "set-cookie": cookie})

    def _file(self, path: str, seen: str | None) -> None:
        found = self.server.files.get(path)
        if self.command != "GET":
            self._refuse(Refusal(405, "Not this method", "method: pages are read with GET"))
        elif path == "/context.json":
            found_at = self.server.connection
            body = json.dumps({"apiUrl": found_at.api_url, "region": found_at.region}).encode()
            self._send(200, body, "application/json", {})
        elif found is None:
            self._refuse(Refusal(404, "No such page", "path: is no page of the console"))
        else:
            fresh = {"etag": found.etag, "cache-control": "no-cache"}
            same = seen == found.etag
            self._send(304 if same else 200, b"" if same else found.content, found.kind, fresh)

    def _call(self, headers: Mapping[str, str], content: bytes) -> None:
        wrong = (
            gate.wrong_call(self.command, self.path)
            or gate.wrong_change(self.command, self.path, headers)
            or gate.wrong_header(headers, _ASKED)
        )
        if wrong:
            self._refuse(wrong)
            return
        try:
            found = self._answered(headers, content)
        except OtherChange:
            self._refuse(Refusal(409, "The key was used", "idempotency-key: is of another change"))
        except Refused as error:
            self._refuse(Refusal(401, error.title, f"{error.detail}. {error.next_step}"))
        except httpx.HTTPError as error:
            detail = f"{self.server.connection.api_url}: {error or type(error).__name__}"
            self._refuse(Refusal(502, "The API does not answer", detail))
        else:
            kind = found.headers.get("content-type", "").partition(";")[0]
            known = {name: found.headers[name] for name in _ANSWERED if name in found.headers}
            # What is no JSON is never a page: a browser shows it as text.
            shown = kind if kind in _JSON else "text/plain; charset=utf-8"
            self._send(found.status_code, found.content, shown, known)

    def _spec(self, headers: Mapping[str, str], content: bytes) -> None:
        """What the page's text says, as JSON; nothing is sent on."""
        if wrong := gate.wrong_sender(headers):
            self._refuse(wrong)
            return
        try:
            spec = drafts.run_spec(content, self.server.connection)
        except InvalidInput as error:
            self._refuse(Refusal(422, error.title, f"{error.detail}. {error.next_step}"))
        else:
            self._send(200, json.dumps({"spec": spec}).encode(), "application/json", {})

    def _answered(self, headers: Mapping[str, str], content: bytes) -> httpx.Response:
        """By the API; a change that came before has the answer that it had."""
        asked = {name: headers[name] for name in _ASKED if name in headers}
        url = self.server.connection.api_url + self.path

        def make() -> httpx.Response:
            return self.server.api.request(self.command, url, content=content, headers=asked)

        key = headers.get("idempotency-key")
        if self.command == "GET" or key is None:
            return make()
        return self.server.once.made(key, (self.command, self.path, content), make)

    def _refuse(self, why: Refusal) -> None:
        """The connection ends: a body that was not read would be the next request."""
        self.close_connection = True
        body = json.dumps({"status": why.status, "title": why.title, "detail": why.detail})
        self._send(why.status, body.encode(), "application/problem+json", {"connection": "close"})

    def _send(self, status: int, body: bytes, kind: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        given = {
            "content-type": kind,
            "content-length": str(len(body)),
            "cache-control": "no-store",
            "content-security-policy": self.server.files.policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            **more,
        }
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)
