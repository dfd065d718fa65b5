"""S3 as the agent sees it, in memory: it compares hashes as S3 does, and can misbehave."""

from __future__ import annotations

import hashlib
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from trainyard_agent.host.digests import Digest
from trainyard_agent.host.http_errors import Refused
from trainyard_agent.host.locations import Location


class AgentS3:
    """`before` is called with the verb and the key of each request, and may raise."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.deleted: list[str] = []
        self.copied: list[str] = []
        self.before: Callable[[str, str], Any] = lambda verb, key: None
        self._lock = threading.Lock()

    def get(self, at: Location) -> bytes | None:
        self.before("get", at.key)
        return self.objects.get(at.key)

    def get_file(self, at: Location, into: IO[bytes]) -> bool:
        self.before("get", at.key)
        if at.key not in self.objects:
            return False
        into.seek(0)
        into.truncate()
        into.write(self.objects[at.key])
        into.flush()
        return True

    def head(self, at: Location) -> tuple[int, str | None] | None:
        body = self.objects.get(at.key)
        return None if body is None else (len(body), _known(body).checksum)

    def put_bytes(self, at: Location, body: bytes) -> Digest:
        self._put(at.key, body)
        return _known(body)

    def put_file(
        self,
        at: Location,
        path: Path,
        known: Digest,
        *,
        pause: Callable[[int], None] | None = None,
    ) -> None:
        self.before("put", at.key)
        with open(path, "rb") as stream:
            body = stream.read(known.size)
        if pause is not None:
            pause(len(body))
        if _known(body) != known:
            raise Refused(400, "XAmzContentChecksumMismatch")
        self._put(at.key, body, asked=True)

    def copy(self, source: Location, at: Location) -> None:
        self.before("copy", at.key)
        if source.key not in self.objects:
            raise Refused(404, "NoSuchKey")
        self.objects[at.key] = self.objects[source.key]
        self.copied.append(at.key)

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        for key in keys:
            self.before("delete", key)
            with self._lock:
                self.objects.pop(key, None)
                self.deleted.append(key)

    def listed(self, bucket: str, prefix: str) -> Iterator[str]:
        self.before("list", prefix)
        return iter(sorted(key for key in self.objects if key.startswith(prefix)))

    def _put(self, key: str, body: bytes, *, asked: bool = False) -> None:
        if not asked:
            self.before("put", key)
        with self._lock:
            self.objects[key] = body
            self.puts.append(key)


def _known(body: bytes) -> Digest:
    hashed = hashlib.sha256(body)
    return Digest(len(body), hashed.hexdigest(), b64encode(hashed.digest()).decode())
