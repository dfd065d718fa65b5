"""The instance metadata service of machine nodes: the role's temporary credentials, to who asks as version 2 wants it."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CREDENTIALS = "/latest/meta-data/iam/security-credentials/"
ROLE = "node"
VALID = timedelta(hours=6)

#: Environment variables of a role's credentials, for the node with this address; None if there is no such node.
CredentialsOf = Callable[[str], Mapping[str, str] | None]


class Metadata:
    """A server on the bridge's address and a port of its own. A node is known by the address it asks from."""

    def __init__(self, host: str, credentials_of: CredentialsOf) -> None:
        tokens: set[str] = set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                token = secrets.token_urlsafe(24)
                tokens.add(token)
                self._say(200 if self.path == "/latest/api/token" else 404, token)

            def do_GET(self) -> None:
                if self.headers.get("X-aws-ec2-metadata-token") not in tokens:
                    self._say(401, "")
                elif self.path == CREDENTIALS:
                    self._say(200, ROLE)
                elif self.path == CREDENTIALS + ROLE and (found := credentials_of(self.client_address[0])):
                    self._say(200, json.dumps(_document(found)))
                else:
                    self._say(404, "")

            def _say(self, status: int, text: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://{host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True, name="metadata").start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _document(credentials: Mapping[str, str]) -> dict[str, str]:
    now = datetime.now(timezone.utc)
    return {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "LastUpdated": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "Expiration": f"{now + VALID:%Y-%m-%dT%H:%M:%SZ}",
        "AccessKeyId": credentials["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": credentials["AWS_SECRET_ACCESS_KEY"],
        "Token": credentials["AWS_SESSION_TOKEN"],
    }
