"""A small HTTP server on the bridge's address, which serves what machine nodes ask their network.

It knows a node by the address from which the node asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Asked(NamedTuple):
    """A request without a body; `address` is the asker's."""

    method: str
    path: str
    headers: Message
    address: str


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    kind: str = "text/plain"


class BridgeServer:
    """Serves on a port of its own until `close`, each connection in a thread."""

    def __init__(self, host: str, name: str, answer: Callable[[Asked], Answer]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                given = answer(Asked(self.command, self.path, self.headers, self.client_address[0]))
                self.send_response(given.status)
                self.send_header("Content-Type", given.kind)
                self.send_header("Content-Length", str(len(given.body)))
                self.end_headers()
                self.wfile.write(given.body)

            do_PUT = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://{host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True, name=name).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
