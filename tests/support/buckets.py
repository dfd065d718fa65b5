"""A bucket of somebody's, as the agent's S3 shows it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from trainyard_agent.host.http_errors import Refused
from trainyard_agent.host.listings import Listed
from trainyard_agent.host.locations import Location


def md5(body: bytes) -> bytes:
    return hashlib.md5(body).digest()


class Bucket:
    """Objects by their keys; with `part` they came in parts of so many bytes."""

    def __init__(self, objects: Mapping[str, bytes], *, part: int = 0, page: int = 2) -> None:
        self.objects, self._part, self._page = dict(objects), part, page
        self.fetched: list[tuple[str, int]] = []
        self.before: Callable[[str], Any] = lambda key: None
        self.damage: Callable[[bytes], bytes] = lambda body: body
        self.kind = "AES256"
        self.refusal: Refused | None = None
        self._lock = threading.Lock()

    def etag(self, key: str) -> str:
        body = self.objects[key]
        if not self._part or len(body) <= self._part:
            return md5(body).hex()
        parts = [md5(body[start : start + self._part]) for start in range(0, len(body), self._part)]
        return f"{md5(b''.join(parts)).hex()}-{len(parts)}"

    def list_page(
        self, bucket: str, prefix: str, token: str = ""
    ) -> tuple[list[Listed], str] | None:
        if self.refusal is not None:
            raise self.refusal
        if bucket == "nowhere":
            return None
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > token)
        found = [Listed(key, len(self.objects[key]), self.etag(key)) for key in keys[: self._page]]
        return found, found[-1].key if len(keys) > self._page else ""

    def get_range(self, at: Location, etag: str, start: int, size: int, into: Any) -> bool:
        with self._lock:
            self.fetched.append((at.key, start))
        self.before(at.key)
        if at.key not in self.objects:
            return False
        if etag != self.etag(at.key):
            raise Refused(412, "PreconditionFailed")
        into.seek(0)
        into.truncate()
        into.write(self.damage(self.objects[at.key][start : start + size]))
        into.flush()
        return True

    def part_bytes(self, at: Location, number: int) -> int | None:
        left = len(self.objects[at.key]) - self._part * (number - 1)
        return min(self._part, left) or None

    def encryption(self, at: Location) -> str:
        return self.kind
