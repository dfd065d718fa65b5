"""Reads a request's body within the limits of the service that it is for.

So no unsigned request takes memory or disk without end.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Mapping
from typing import BinaryIO, Protocol

MB = 1024 * 1024
#: API Gateway's own limit.
MOST_API_BYTES = 10 * MB
#: The largest object of one PUT to S3.
MOST_OBJECT_BYTES = 5 * 1024 * MB
#: DynamoDB's 16 MB a request is the largest of the other services.
MOST_REQUEST_BYTES = 16 * MB
_IN_MEMORY_BYTES = 8 * MB
_BLOCK_BYTES = MB
#: What a refused request may still send before the connection is closed: so its sender gets the
#: answer.
_PATIENCE_BYTES = 32 * MB
_LONGEST_LINE = 100
#: What is no service of AWS: the HTTP APIs and the admin calls. No bucket's name begins so.
_OURS = "/_"
_FOR_S3 = re.compile(r"/s3/aws4_request|%2Fs3%2Faws4_request", re.IGNORECASE)


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


class BodyRefused(Exception):
    """The body was not taken; the connection cannot carry another request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def most_bytes(path: str, headers: Mapping[str, str]) -> int:
    """How long a body the service takes that the request names."""
    if path.startswith(_OURS):
        return MOST_API_BYTES
    return (
        MOST_OBJECT_BYTES
        if _FOR_S3.search(headers.get("authorization", "") + path)
        else MOST_REQUEST_BYTES
    )


def read(rfile: Readable, path: str, headers: Mapping[str, str]) -> tuple[BinaryIO, int]:
    """The whole body and its length; a large one lies on disk. Raises BodyRefused."""
    coding, length = (
        headers.get("transfer-encoding", "").strip().lower(),
        headers.get("content-length"),
    )
    if coding and (coding != "chunked" or length is not None):
        raise BodyRefused(
            400, "Bad Request: send either Content-Length or Transfer-Encoding: chunked"
        )
    if coding:
        return _chunked(rfile, MOST_API_BYTES)
    if length is not None and not re.fullmatch(r"[0-9]{1,18}", length):
        raise BodyRefused(400, f"Bad Request: Content-Length is no number: {length[:50]!r}")
    left = int(length or 0)
    if left > most_bytes(path, headers):
        _discard(rfile, left)
        raise BodyRefused(413, "Request Too Long")
    return _whole(rfile, left), left


def _whole(rfile: Readable, length: int) -> BinaryIO:
    # run_wsgi closes it.
    body: BinaryIO = (
        io.BytesIO() if length <= _IN_MEMORY_BYTES else tempfile.TemporaryFile()  # noqa: SIM115
    )
    try:
        _copy(rfile, body, length)
    except BodyRefused:
        body.close()
        raise
    body.seek(0)
    return body


def _chunked(rfile: Readable, most: int) -> tuple[BinaryIO, int]:
    body = io.BytesIO()
    while size := _chunk_size(rfile):
        if body.tell() + size > most:
            _discard(rfile, size)
            raise BodyRefused(413, "Request Too Long")
        _copy(rfile, body, size)
        _end_of_line(rfile)
    _skip_trailers(rfile)
    length = body.tell()
    body.seek(0)
    return body, length


def _chunk_size(rfile: Readable) -> int:
    found = re.fullmatch(
        rb"([0-9A-Fa-f]{1,16})[ \t]*(;[^\r\n]*)?\r?\n", rfile.readline(_LONGEST_LINE)
    )
    if found is None:
        raise BodyRefused(
            400, "Bad Request: a chunk must begin with its size in hexadecimal digits"
        )
    return int(found[1], 16)


def _end_of_line(rfile: Readable) -> None:
    if rfile.readline(2) not in (b"\r\n", b"\n"):
        raise BodyRefused(400, "Bad Request: a chunk does not end where its size says")


def _skip_trailers(rfile: Readable) -> None:
    for _ in range(_LONGEST_LINE):
        if (line := rfile.readline(8192)) in (b"\r\n", b"\n"):
            return
        if not line.endswith(b"\n"):
            break
    raise BodyRefused(400, "Bad Request: the body's trailers do not end")


def _copy(rfile: Readable, body: BinaryIO, length: int) -> None:
    """In blocks, so that what was announced and never comes takes no memory."""
    while length:
        block = rfile.read(min(length, _BLOCK_BYTES))
        if not block:
            raise BodyRefused(400, "Bad Request: the body ended before it was whole")
        body.write(block)
        length -= len(block)


def _discard(rfile: Readable, length: int) -> None:
    left = min(length, _PATIENCE_BYTES)
    while left and (block := rfile.read(min(left, _BLOCK_BYTES))):
        left -= len(block)
