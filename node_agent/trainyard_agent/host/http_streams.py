"""What a request to AWS reads and writes, block by block."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trainyard_agent.host.http_errors import CannotWrite

BLOCK = 1024 * 1024


class Writable(Protocol):
    """Where an answer goes: an open file, or a part of one. `seek(0)` and `truncate` begin anew."""

    def write(self, block: bytes, /) -> Any: ...

    def seek(self, offset: int, /) -> Any: ...

    def truncate(self) -> Any: ...

    def flush(self) -> Any: ...


class Readable(Protocol):
    """A body that is streamed: an open file, or a slice of one."""

    def read(self, size: int = -1, /) -> bytes: ...

    def seek(self, offset: int, /) -> Any: ...


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


def receive(response: http.client.HTTPResponse, into: Writable) -> None:
    """Write the body in blocks; a full disk is no fault of the service."""
    try:
        into.seek(0)
        into.truncate()
        while block := _block(response):
            into.write(block)
        into.flush()
    except OSError as error:
        raise CannotWrite(error) from error


def _block(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(BLOCK)
    except OSError as error:
        raise http.client.HTTPException(f"the answer broke off: {error}") from error
