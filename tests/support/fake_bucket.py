"""A bucket behind signed URLs that holds who calls to hash, size and expiry, and can misbehave."""

from __future__ import annotations

import base64
import hashlib
import itertools
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit


class _Handler(BaseHTTPRequestHandler):
    bucket: FakeBucket
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_: object) -> None: ...

    def do_PUT(self) -> None:
        key, token, size = self._asked()
        misbehaviour = self.bucket.next_misbehaviour("PUT")
        if misbehaviour == "cut":
            self.rfile.read(min(size, 1000))
            self.connection.close()
            self.close_connection = True
            return
        body = self.rfile.read(size)
        if len(body) < size:  # the caller went away
            self.close_connection = True
            return
        if isinstance(misbehaviour, int):
            self._say(misbehaviour, "InternalError")
        elif self.bucket.bound.get(token) != (key, size):
            self._say(403, "AccessDenied", "Request has expired")
        elif self.headers.get("x-amz-checksum-sha256") != _checksum(key.rpartition("/")[2]):
            self._say(403, "SignatureDoesNotMatch")
        elif hashlib.sha256(body).hexdigest() != key.rpartition("/")[2]:
            self._say(400, "BadDigest", "The SHA256 you specified did not match what we received")
        else:
            self.bucket.put(key, body)
            self._say(200)

    def do_GET(self) -> None:
        key, token, _ = self._asked()
        self.bucket.gets.append((key, self.headers.get("range")))
        misbehaviour = self.bucket.next_misbehaviour("GET")
        body = self.bucket.objects.get(key)
        if isinstance(misbehaviour, int):
            self._say(misbehaviour, "InternalError")
        elif token not in self.bucket.bound:
            self._say(403, "AccessDenied", "Request has expired")
        elif body is None:
            self._say(404, "NoSuchKey")
        else:
            self._send(body, cut=misbehaviour == "cut")

    def _asked(self) -> tuple[str, str, int]:
        url = urlsplit(self.path)
        token = parse_qs(url.query).get("token", [""])[0]
        return unquote(url.path)[1:], token, int(self.headers.get("content-length") or 0)

    def _send(self, body: bytes, *, cut: bool) -> None:
        wanted = self.headers.get("range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("content-length", str(len(body) - start))
        self.end_headers()
        part = body[start:]
        self.wfile.write(part[: len(part) // 2] if cut else part)
        if cut:
            self.wfile.flush()
            self.close_connection = True

    def _say(self, status: int, code: str = "", message: str = "") -> None:
        text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>" if code else ""
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


class FakeBucket:
    """`misbehave` holds what the next requests of a method meet: "cut", a status, or None."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        #: What each token of a URL was given for: key and size.
        self.bound: dict[str, tuple[str, int]] = {}
        self.misbehave: dict[str, list[str | int | None]] = {"PUT": [], "GET": []}
        self.puts: list[str] = []
        self.gets: list[tuple[str, str | None]] = []
        self._lock = threading.Lock()
        self._numbers = itertools.count()

        class Handler(_Handler):
            bucket = self

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, key: str, size: int = 0) -> str:
        token = str(next(self._numbers))
        self.bound[token] = (key, size)
        return f"{self.endpoint}/{quote(key)}?token={token}"

    def expire(self) -> None:
        """No URL that was given out is good any more."""
        self.bound.clear()

    def put(self, key: str, body: bytes) -> None:
        with self._lock:
            self.objects[key] = body
            self.puts.append(key)

    def next_misbehaviour(self, method: str) -> str | int | None:
        with self._lock:
            waiting = self.misbehave[method]
            return waiting.pop(0) if waiting else None

    def upload(self, spec: dict[str, Any], at_once: int = 200) -> dict[str, Any]:
        """What POST /v1/uploads answers."""
        packs = {pack["sha256"]: pack["bytes"] for pack in [spec["tree"], *spec["packs"]]}
        lacking = [
            (sha256, size)
            for sha256, size in packs.items()
            if f"uploads/{sha256}" not in self.objects
        ]
        missing = [
            {
                "sha256": sha256,
                "bytes": size,
                "url": self.url(f"uploads/{sha256}", size),
                "headers": {
                    "x-amz-checksum-sha256": _checksum(sha256),
                    "content-length": str(size),
                },
            }
            for sha256, size in lacking[:at_once]
        ]
        return {
            "id": spec["tree"]["sha256"],
            "state": "Incomplete" if lacking else "Complete",
            "missing": missing,
            "missingCount": len(lacking),
            "expiresAt": None,
        }

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _checksum(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()
