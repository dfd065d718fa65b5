"""What two hosts of one job say to each other over TCP: frames of JSON, each with a code that only
the holder of the job's key can make.

The key is of one attempt; who has it may write that attempt's checkpoints, and nothing else.
What a frame announces as its body is compared by its SHA-256, which is in the frame.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
from hashlib import sha256
from typing import Any

_NONCE, _MAC = 16, 32
#: A line of the ranks' is short; what is longer was not sent by us.
MOST_FRAME_BYTES = 16 * 1024 * 1024
_BLOCK = 1 << 20

Document = dict[str, Any]


class NotOurs(ConnectionError):
    """The other end does not have the key of this attempt."""


class Wire:
    """One connection, after both ends have proven that they have the key."""

    def __init__(self, connection: socket.socket, session: bytes, own: bytes, other: bytes) -> None:
        self._connection, self._session = connection, session
        self._own, self._other = own, other
        self._sent = self._received = 0

    def send(self, document: Document) -> None:
        """Raises OSError."""
        body = json.dumps(document, separators=(",", ":")).encode()
        code = self._code(self._own, self._sent, body)
        self._sent += 1
        self._connection.sendall(struct.pack(">I", len(body)) + code + body)

    def receive(self) -> Document:
        """Raises OSError, also where the other end is gone (ConnectionError)."""
        (size,) = struct.unpack(">I", self.read(4))
        if size > MOST_FRAME_BYTES:
            raise NotOurs(f"a frame of {size} bytes")
        code, body = self.read(_MAC), self.read(size)
        if not hmac.compare_digest(code, self._code(self._other, self._received, body)):
            raise NotOurs("a frame without this connection's code")
        self._received += 1
        return dict(json.loads(body))

    def send_bytes(self, block: bytes) -> None:
        """A part of the body that the last frame announced."""
        self._connection.sendall(block)

    def read(self, size: int) -> bytes:
        """Exactly so many bytes."""
        return _read(self._connection, size)

    def read_some(self, left: int) -> bytes:
        """A part of a body of which so much is left."""
        block = self._connection.recv(min(left, _BLOCK))
        if not block:
            raise ConnectionError("the other end is gone")
        return block

    def close(self) -> None:
        self._connection.close()

    def _code(self, side: bytes, number: int, body: bytes) -> bytes:
        said = side + struct.pack(">Q", number) + body
        return hmac.new(self._session, said, sha256).digest()


def call(connection: socket.socket, key: bytes) -> Wire:
    """The caller's part of the greeting. Raises OSError."""
    theirs = _read(connection, _NONCE)
    ours = secrets.token_bytes(_NONCE)
    connection.sendall(ours + _proof(key, b"caller", theirs + ours))
    if not hmac.compare_digest(_read(connection, _MAC), _proof(key, b"courier", theirs + ours)):
        raise NotOurs("the courier does not have this attempt's key")
    return Wire(connection, _proof(key, b"session", theirs + ours), b"c", b"s")


def answer(connection: socket.socket, key: bytes) -> Wire:
    """The courier's part. Raises OSError."""
    ours = secrets.token_bytes(_NONCE)
    connection.sendall(ours)
    theirs = _read(connection, _NONCE)
    if not hmac.compare_digest(_read(connection, _MAC), _proof(key, b"caller", ours + theirs)):
        raise NotOurs("a caller without this attempt's key")
    connection.sendall(_proof(key, b"courier", ours + theirs))
    return Wire(connection, _proof(key, b"session", ours + theirs), b"s", b"c")


def _proof(key: bytes, purpose: bytes, said: bytes) -> bytes:
    return hmac.new(key, b"trainyard.courier.v1\n" + purpose + b"\n" + said, sha256).digest()


def _read(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        block = connection.recv(min(size, _BLOCK))
        if not block:
            raise ConnectionError("the other end is gone")
        parts.append(block)
        size -= len(block)
    return b"".join(parts)
