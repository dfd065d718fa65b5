"""Authenticated frames of the link between agents, JSON only.

HMAC challenge-response, then one MAC and counter per message.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
import struct
from hashlib import sha256
from typing import Any

MAX_BYTES = 64 * 1024
HANDSHAKE_SECONDS = 3.0
_MAC_BYTES = 32


#: A link whose bytes are not acknowledged for this long is over; by the kernel's own patience it
#: would hang for a quarter of an hour, and be tried again ever more rarely after the network is
#: back.
UNACKNOWLEDGED_SECONDS = 6.0


class LinkError(Exception):
    """The other side does not know the key, speaks garbage, or sent more than MAX_BYTES."""


def give_up_early(writer: asyncio.StreamWriter) -> None:
    """Let the kernel end this connection when the other side's acknowledgements stay away."""
    found = writer.get_extra_info("socket")
    if found is not None:
        found.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNACKNOWLEDGED_SECONDS * 1000)
        )


def mac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 of length-prefixed parts, so that no two lists of parts collide."""
    return hmac.new(
        key, b"".join(struct.pack(">I", len(part)) + part for part in parts), sha256
    ).digest()


class Frames:
    """One direction pair of an authenticated connection.

    A replayed, reordered or altered frame raises LinkError.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        send_key: bytes,
        receive_key: bytes,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._send_key, self._receive_key = send_key, receive_key
        self._sent = self._received = 0

    def send(self, message: dict[str, Any]) -> None:
        """Queue one message. Raises LinkError if it is too large."""
        body = encode(message)
        self._writer.write(
            struct.pack(">I", len(body))
            + mac(self._send_key, struct.pack(">Q", self._sent), body)
            + body
        )
        self._sent += 1

    async def drain(self) -> None:
        await self._writer.drain()

    async def receive(self) -> dict[str, Any]:
        """The next message. Raises LinkError, asyncio.IncompleteReadError, ConnectionError."""
        head = await self._reader.readexactly(4 + _MAC_BYTES)
        (length,) = struct.unpack(">I", head[:4])
        if length > MAX_BYTES:
            raise LinkError(f"a frame of {length} bytes is over the limit of {MAX_BYTES}")
        body = await self._reader.readexactly(length)
        if not hmac.compare_digest(
            head[4:], mac(self._receive_key, struct.pack(">Q", self._received), body)
        ):
            raise LinkError("a frame does not carry the right MAC")
        self._received += 1
        return decode(body)

    def close(self) -> None:
        self._writer.close()


def encode(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_BYTES:
        raise LinkError(f"a message of {len(body)} bytes is over the limit of {MAX_BYTES}")
    return body


def decode(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise LinkError(f"a frame is not JSON: {error}") from error
    if not isinstance(message, dict):
        raise LinkError("a frame is not a JSON object")
    if b"\\ud" in body.lower():
        _refuse_half_characters(message)
    return message


def _refuse_half_characters(message: dict[str, Any]) -> None:
    """JSON can name half of a surrogate pair, which can be neither stored nor sent."""
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise LinkError("a frame holds half a character") from error


async def _line(reader: asyncio.StreamReader) -> dict[str, Any]:
    """One short line of the handshake (before anything is authenticated, so it must be small)."""
    try:
        line = await reader.readline()
    except ValueError as error:  # asyncio raises it for a line over its own limit
        raise LinkError("the handshake is not a short line") from error
    if not line.endswith(b"\n") or len(line) > 1024:
        raise LinkError("the handshake is not a short line")
    return decode(line)


def _text(message: dict[str, Any], name: str, limit: int = 128) -> bytes:
    value = message.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise LinkError(f"the handshake lacks {name!r}")
    return value.encode()


def _session(key: bytes, server: bytes, client: bytes, node: bytes) -> tuple[bytes, bytes]:
    """Keys for (client to server, server to client), new for every connection."""
    return mac(key, b"to-server", server, client, node), mac(
        key, b"to-client", server, client, node
    )


async def greet_as_server(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes
) -> tuple[Frames, str, str]:
    """Challenge a client; returns (frames, node name, instance id).

    Raises LinkError, TimeoutError, ConnectionError.
    """
    return await asyncio.wait_for(_greet_as_server(reader, writer, key), HANDSHAKE_SECONDS)


async def _greet_as_server(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes
) -> tuple[Frames, str, str]:
    nonce = secrets.token_hex(16).encode()
    writer.write(encode({"trainyard": 1, "nonce": nonce.decode()}) + b"\n")
    hello = await _line(reader)
    theirs, node, instance, proof = (
        _text(hello, name) for name in ("nonce", "node", "instance", "proof")
    )
    if not hmac.compare_digest(
        proof, mac(key, b"client", nonce, theirs, node, instance).hex().encode()
    ):
        raise LinkError(f"node {node.decode(errors='replace')!r} does not know the cluster's key")
    writer.write(
        encode({"proof": mac(key, b"server", nonce, theirs, node, instance).hex()}) + b"\n"
    )
    receive_key, send_key = _session(key, nonce, theirs, node)
    return Frames(reader, writer, send_key, receive_key), node.decode(), instance.decode()


async def greet_as_client(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes, node: str, instance: str
) -> Frames:
    """Answer the server's challenge and check that it knows the key, too.

    Raises LinkError, TimeoutError, ConnectionError.
    """
    return await asyncio.wait_for(
        _greet_as_client(reader, writer, key, node.encode(), instance.encode()), HANDSHAKE_SECONDS
    )


async def _greet_as_client(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    key: bytes,
    node: bytes,
    instance: bytes,
) -> Frames:
    theirs = _text(await _line(reader), "nonce")
    nonce = secrets.token_hex(16).encode()
    proof = mac(key, b"client", theirs, nonce, node, instance).hex()
    hello = {
        "nonce": nonce.decode(),
        "node": node.decode(),
        "instance": instance.decode(),
        "proof": proof,
    }
    writer.write(encode(hello) + b"\n")
    if not hmac.compare_digest(
        _text(await _line(reader), "proof"),
        mac(key, b"server", theirs, nonce, node, instance).hex().encode(),
    ):
        raise LinkError("the controller does not know the cluster's key")
    send_key, receive_key = _session(key, theirs, nonce, node)
    return Frames(reader, writer, send_key, receive_key)
