"""A package index that machine nodes reach (CodeArtifact's place in a network without NAT), which has nothing for a node's first question."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

_PAGE = re.compile(r"/simple/([A-Za-z0-9._-]+)/")
_FILE = re.compile(r"/files/([A-Za-z0-9._+!-]+)")


class Index:
    """Serves the wheels of a directory by PEP 503 on the bridge's address. A node is known by the address it asks from."""

    def __init__(self, host: str, packages: Path) -> None:
        packages.mkdir(parents=True, exist_ok=True)
        self._asked: set[str] = set()
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = unquote(self.path)
                if (page := _PAGE.fullmatch(path)) and index.answers(self.client_address[0]):
                    self._say("text/html", "".join(f'<a href="/files/{name}">{name}</a>\n' for name in wheels(packages, page[1])).encode())
                elif (file := _FILE.fullmatch(path)) and (packages / file[1]).is_file():
                    self._say("application/octet-stream", (packages / file[1]).read_bytes())
                else:
                    self.send_error(404)

            def _say(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self.configuration = f"[global]\nindex-url = http://{host}:{self._server.server_address[1]}/simple\ntrusted-host = {host}\n"
        threading.Thread(target=self._server.serve_forever, daemon=True, name="index").start()

    def booted(self, address: str) -> None:
        """That node's first question finds nothing, as while a network comes up."""
        self._asked.discard(address)

    def answers(self, address: str) -> bool:
        """Whether the node has asked before."""
        before = address in self._asked
        self._asked.add(address)
        return before

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def wheels(packages: Path, project: str) -> list[str]:
    """Names of the project's wheels; names are compared as PEP 503 says."""
    return sorted(path.name for path in packages.glob("*.whl") if normal(path.name.partition("-")[0]) == normal(project))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
