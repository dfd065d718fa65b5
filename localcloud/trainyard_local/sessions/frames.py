"""The binary frames of Session Manager's data channel, as the service and the agent have them.

Layout: `message/clientmessage.go` and `messageparser.go` of
github.com/aws/session-manager-plugin; big-endian throughout.
"""

from __future__ import annotations

import hashlib
import struct
import time
import uuid
from dataclasses import dataclass, field

HEADER_LENGTH = 116
#: channel_closed is made by the service, which leaves out the payload type.
CLOSED_HEADER_LENGTH = 112
_FIXED = struct.Struct(">I32sIQqQ16s32s")
_U32 = struct.Struct(">I")

INPUT = "input_stream_data"
OUTPUT = "output_stream_data"
ACKNOWLEDGE = "acknowledge"
CHANNEL_CLOSED = "channel_closed"

TYPE_OUTPUT, TYPE_ERROR, TYPE_SIZE = 1, 2, 3
TYPE_HANDSHAKE_REQUEST, TYPE_HANDSHAKE_RESPONSE, TYPE_HANDSHAKE_COMPLETE = 5, 6, 7
TYPE_FLAG, TYPE_STDERR, TYPE_EXIT_CODE = 10, 11, 12
FLAG_TERMINATE = 2
ACK_FLAGS = 3


class FrameError(ValueError):
    """Bytes that are no frame: too short, lengths that do not fit, or a wrong digest."""


@dataclass(frozen=True)
class Frame:
    """One message. `payload_type` is 0 where the frame has none."""

    message_type: str
    sequence: int
    payload: bytes
    payload_type: int = 0
    flags: int = 0
    message_id: uuid.UUID = field(default_factory=uuid.uuid4)
    created_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    schema_version: int = 1

    def encode(self) -> bytes:
        closed = self.message_type == CHANNEL_CLOSED
        identity = self.message_id.bytes
        fixed = _FIXED.pack(
            CLOSED_HEADER_LENGTH if closed else HEADER_LENGTH,
            self.message_type.encode("ascii").ljust(32),
            self.schema_version,
            self.created_ms,
            self.sequence,
            self.flags,
            identity[8:] + identity[:8],  # the least significant half goes first
            hashlib.sha256(self.payload).digest(),
        )
        kind = b"" if closed else _U32.pack(self.payload_type)
        return fixed + kind + _U32.pack(len(self.payload)) + self.payload


def decode(data: bytes) -> Frame:
    """Parse one frame; raises FrameError."""
    if len(data) < CLOSED_HEADER_LENGTH + 4:
        raise FrameError(
            f"a frame has at least {CLOSED_HEADER_LENGTH + 4} bytes, this has {len(data)}"
        )
    header, kind, schema, created, sequence, flags, identity, digest = _FIXED.unpack_from(data)
    if not CLOSED_HEADER_LENGTH <= header <= len(data) - 4:
        raise FrameError(f"header length {header} does not fit a frame of {len(data)} bytes")
    payload_type = _U32.unpack_from(data, CLOSED_HEADER_LENGTH)[0] if header >= HEADER_LENGTH else 0
    (length,) = _U32.unpack_from(data, header)
    payload = data[header + 4 : header + 4 + length]
    if len(payload) != length:
        raise FrameError(f"payload of {length} bytes announced, {len(payload)} are there")
    if length and hashlib.sha256(payload).digest() != digest:
        raise FrameError("the payload does not match its digest")
    return Frame(
        message_type=kind.decode("ascii", errors="replace").strip(" \0"),
        sequence=sequence,
        payload=payload,
        payload_type=payload_type,
        flags=flags,
        message_id=uuid.UUID(bytes=identity[8:] + identity[:8]),
        created_ms=created,
        schema_version=schema,
    )
