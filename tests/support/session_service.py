"""A scripted Session Manager, frame by frame, over a real websocket.

It has StartSession, TerminateSession and the data channel's other side. It builds frames with its
own code, so that a mistake in the client's framing cannot cancel itself out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve


def raw_frame(
    message_type: str,
    sequence: int,
    payload: bytes,
    payload_type: int = 0,
    *,
    header_length: int = 116,
    digest: bytes | None = None,
) -> bytes:
    """A frame byte by byte, as the service writes it."""
    identity = uuid.uuid4().bytes
    head = (
        struct.pack(">I", header_length)
        + message_type.encode().ljust(32, b" ")
        + struct.pack(">I", 1)
    )
    head += (
        struct.pack(">Q", 1_790_000_000_000) + struct.pack(">q", sequence) + struct.pack(">Q", 0)
    )
    head += identity[8:16] + identity[0:8] + (digest or hashlib.sha256(payload).digest())
    if header_length == 116:
        head += struct.pack(">I", payload_type)
    return head + struct.pack(">I", len(payload)) + payload


@dataclass(frozen=True)
class Received:
    """A frame of the client, read by offsets."""

    message_type: str
    sequence: int
    flags: int
    message_id: uuid.UUID
    payload_type: int
    payload: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.payload)


def read_frame(data: bytes) -> Received:
    (header,) = struct.unpack(">I", data[0:4])
    (length,) = struct.unpack(">I", data[116:120])
    payload = data[120:]
    assert header == 116
    assert length == len(payload)
    assert hashlib.sha256(payload).digest() == data[80:112]
    assert struct.unpack(">Q", data[48 - 8 : 48])[0] != 0
    return Received(
        data[4:36].decode().rstrip(),
        struct.unpack(">q", data[48:56])[0],
        struct.unpack(">Q", data[56:64])[0],
        uuid.UUID(bytes=data[72:80] + data[64:72]),
        struct.unpack(">I", data[112:116])[0],
        payload,
    )


def output(sequence: int, payload: bytes, payload_type: int = 1) -> bytes:
    return raw_frame("output_stream_data", sequence, payload, payload_type)


def handshake(sequence: int = 0, *, encrypted: bool = False) -> bytes:
    actions: list[dict[str, Any]] = [
        {
            "ActionType": "SessionType",
            "ActionParameters": {"SessionType": "NonInteractiveCommands", "Properties": {}},
        }
    ]
    if encrypted:
        actions.append(
            {
                "ActionType": "KMSEncryption",
                "ActionParameters": {"KMSKeyId": "arn:aws:kms:us-east-1:1:key/k"},
            }
        )
    return output(
        sequence,
        json.dumps({"AgentVersion": "3.3.0.0", "RequestedClientActions": actions}).encode(),
        5,
    )


def handshake_complete(sequence: int = 1) -> bytes:
    return output(sequence, b'{"HandshakeTimeToComplete":1000000,"CustomerMessage":""}', 7)


def exit_code(sequence: int, code: int) -> bytes:
    return output(sequence, f"EXIT_CODE: {code}\n".encode(), 12)


def channel_closed(reason: str = "") -> bytes:
    body = {
        "MessageId": str(uuid.uuid4()),
        "SessionId": "s",
        "MessageType": "channel_closed",
        "SchemaVersion": 1,
        "Output": reason,
    }
    return raw_frame("channel_closed", 0, json.dumps(body).encode(), header_length=112)


def conversation(stdout: bytes = b"", stderr: bytes = b"", code: int = 0) -> list[bytes]:
    """The ordinary course of one command."""
    frames = [handshake(), handshake_complete()]
    frames += [output(2, stdout)] if stdout else []
    frames += [output(len(frames), stderr, 11)] if stderr else []
    return [*frames, exit_code(len(frames), code), channel_closed()]


@dataclass
class ScriptedSessions:
    """Stands for boto3's ssm client and the service: sessions play `script`, frames are kept."""

    script: Callable[[ServerConnection, ScriptedSessions], None]
    refusals: list[Exception] = field(default_factory=list)
    started: list[dict[str, Any]] = field(default_factory=list)
    terminated: list[str] = field(default_factory=list)
    opening: dict[str, Any] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    url: str = ""

    def start_session(self, **request: Any) -> dict[str, str]:
        self.started.append(request)
        if self.refusals:
            raise self.refusals.pop(0)
        return {
            "SessionId": f"session-{len(self.started)}",
            "StreamUrl": self.url,
            "TokenValue": "token-1",
        }

    def terminate_session(self, *, SessionId: str) -> dict[str, str]:
        with self.changed:
            self.terminated.append(SessionId)
            self.changed.notify_all()
        return {"SessionId": SessionId}

    def of_type(self, message_type: str) -> list[Received]:
        return [frame for frame in self.received if frame.message_type == message_type]

    def await_received(
        self, count: int, message_type: str, *, seconds: float = 5
    ) -> list[Received]:
        """Wait until the client has sent `count` frames of a type."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while len(self.of_type(message_type)) < count:
                assert self.changed.wait(max(deadline - time.monotonic(), 0)), (
                    f"no {count} frames of {message_type} came"
                )
            return self.of_type(message_type)

    def _serve(self, socket: ServerConnection) -> None:
        self.opening = json.loads(socket.recv())
        reader = threading.Thread(target=self._read, args=(socket,), daemon=True)
        reader.start()
        with contextlib.suppress(ConnectionClosed):
            self.script(socket, self)
        socket.close()
        reader.join(120)

    def _read(self, socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            for data in socket:
                assert isinstance(data, bytes)
                with self.changed:
                    self.received.append(read_frame(data))
                    self.changed.notify_all()


def play(*frames: bytes | str) -> Callable[[ServerConnection, ScriptedSessions], None]:
    """A script that sends these messages at once."""

    def script(socket: ServerConnection, sessions: ScriptedSessions) -> None:
        for frame in frames:
            socket.send(frame)

    return script


@contextlib.contextmanager
def sessions(
    script: Callable[[ServerConnection, ScriptedSessions], None],
) -> Iterator[ScriptedSessions]:
    """A scripted service on a free loopback port."""
    scripted = ScriptedSessions(script)
    server: Server = serve(scripted._serve, "127.0.0.1", 0, compression=None)
    scripted.url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}/v1/data-channel/session-1?role=publish_subscribe"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield scripted
    finally:
        server.shutdown()
        thread.join(120)
