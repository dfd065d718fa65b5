"""The loopback HTTP server under everything: WSGI with keep-alive.

werkzeug's own closes every connection, which halves the speed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import ThreadedWSGIServer

from sam_on_moto.wire import request_bodies
from sam_on_moto.wire.parsing import QuickHandler
from sam_on_moto.wire.request_bodies import BodyRefused

log = logging.getLogger(__name__)

WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


class _Handler(QuickHandler, MotoRequestHandler):  # type: ignore[misc]
    """Reads a whole request, then sends a whole answer: so the connection can carry the next."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536

    def run_wsgi(self) -> None:
        try:
            body, length = request_bodies.read(self.rfile, self.path, self._lower_headers())
        except BodyRefused as refused:
            self._refuse(refused)
            return
        environ = self.make_environ()
        if environ.pop("HTTP_TRANSFER_ENCODING", None):
            environ["CONTENT_LENGTH"] = str(length)  # moto wants to know the length of what it gets
        environ.update({"wsgi.input": body, "wsgi.input_terminated": True})
        try:
            status, headers, content = self._answer(environ)
        finally:
            body.close()
        self._send(status, headers, content)

    def _answer(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        """The app's whole answer: status, headers, content. Its errors are answered as defects."""
        started: list[Any] = []

        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: Any = None
        ) -> Any:
            started[:] = [status, headers]
            return None

        try:
            answer = self.server.app(environ, start_response)  # type: ignore[attr-defined]
            content = b"".join(answer)
            if hasattr(answer, "close"):
                answer.close()
        except Exception as error:
            log.exception("%s %s failed", self.command, self.path)
            started[:] = [
                "500 Internal Server Error",
                [
                    ("Content-Type", "application/x-amz-json-1.0"),
                    ("x-amzn-ErrorType", "InternalFailure"),
                ],
            ]
            content = json.dumps(
                {
                    "__type": "InternalFailure",
                    "message": f"defect of the local cloud: {type(error).__name__}: {error}",
                }
            ).encode()
        return started[0], started[1], content

    def _lower_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _refuse(self, refused: BodyRefused) -> None:
        """The connection ends with the answer: nobody knows where the next request begins."""
        self.close_connection = True
        status = f"{refused.status} {HTTPStatus(refused.status).phrase}"
        content = json.dumps({"message": refused.message}).encode()
        with contextlib.suppress(OSError):
            self._send(status, [("Content-Type", "application/json")], content)

    def _send(self, status: str, headers: list[tuple[str, str]], content: bytes) -> None:
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        bodiless = self.command == "HEAD" or code in ("204", "304")
        if self.close_connection:
            self.send_header("Connection", "close")
        if "content-length" not in names and not bodiless:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not bodiless:
            self.wfile.write(content)
        self.wfile.flush()

    def handle_expect_100(self) -> bool:
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return bool(going_on)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        pass


class LoopbackServer:
    """A thread-per-connection server where the listener is."""

    def __init__(self, listener: socket.socket, app: WsgiApp) -> None:
        host, self.port = listener.getsockname()
        self._server = ThreadedWSGIServer(
            host, self.port, app, handler=_Handler, fd=listener.fileno()
        )
        self._server.daemon_threads = True
        self._listener = listener
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.2},
            daemon=True,
            name="http",
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._listener.close()
