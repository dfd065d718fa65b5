"""The binary frames of Session Manager's data channel: one frame a websocket message, big-endian.

Source: aws/session-manager-plugin `src/message/messageparser.go` and what its agent sends; see
`Frame` for the layout.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from uuid import UUID, uuid4

#: Offset of PayloadLength in frames with a PayloadType, and in the service's `channel_closed`,
#: which has none.
HEADER_LENGTH = 116
HEADER_LENGTH_WITHOUT_TYPE = 112

INPUT, OUTPUT, ACKNOWLEDGE = "input_stream_data", "output_stream_data", "acknowledge"
CHANNEL_CLOSED, START, PAUSE = "channel_closed", "start_publication", "pause_publication"

PAYLOAD_OUTPUT, PAYLOAD_ERROR, PAYLOAD_STDERR, PAYLOAD_EXIT_CODE = 1, 2, 11, 12
PAYLOAD_HANDSHAKE_REQUEST, PAYLOAD_HANDSHAKE_RESPONSE, PAYLOAD_HANDSHAKE_COMPLETE = 5, 6, 7

FLAG_SYN_FIN = 3

NO_ID = UUID(int=0)
_HEADER = struct.Struct(">I32sIQqQ16s32s")  # up to and without PayloadType: 112 bytes
_U32 = struct.Struct(">I")


class BrokenFrame(ValueError):
    """A websocket message that is not a whole, unchanged frame."""


@dataclass(frozen=True)
class Frame:
    """One message.

    Layout: HeaderLength u32, MessageType 32 bytes padded with spaces, SchemaVersion u32,
    CreatedDate u64 (ms), SequenceNumber i64, Flags u64, MessageId 16 bytes (halves swapped),
    PayloadDigest SHA-256, PayloadType u32, PayloadLength u32, payload.
    """

    message_type: str
    sequence: int
    payload: bytes
    payload_type: int = 0
    flags: int = 0
    message_id: UUID = NO_ID
    created_ms: int = 0


def input_frame(sequence: int, payload_type: int, payload: bytes, created_ms: int) -> bytes:
    """What the client sends as data."""
    return encode(
        Frame(INPUT, sequence, payload, payload_type, message_id=uuid4(), created_ms=created_ms)
    )


def acknowledgement(received: Frame, created_ms: int) -> bytes:
    """The client's answer to every `output_stream_data`."""
    payload = {
        "AcknowledgedMessageType": received.message_type,
        "AcknowledgedMessageId": str(received.message_id),
        "AcknowledgedMessageSequenceNumber": received.sequence,
        "IsSequentialMessage": True,
    }
    body = json.dumps(payload, separators=(",", ":")).encode()
    return encode(
        Frame(ACKNOWLEDGE, 0, body, flags=FLAG_SYN_FIN, message_id=uuid4(), created_ms=created_ms)
    )


def encode(frame: Frame) -> bytes:
    """Serialise a frame with HeaderLength 116."""
    name = frame.message_type.encode("ascii").ljust(32, b" ")
    identity = frame.message_id.bytes
    header = _HEADER.pack(
        HEADER_LENGTH,
        name,
        1,
        frame.created_ms,
        frame.sequence,
        frame.flags,
        identity[8:] + identity[:8],
        hashlib.sha256(frame.payload).digest(),
    )
    return header + _U32.pack(frame.payload_type) + _U32.pack(len(frame.payload)) + frame.payload


def decode(data: bytes) -> Frame:
    """Parse and check one websocket message. Raises BrokenFrame, saying what is wrong with it."""
    if len(data) < _HEADER.size + _U32.size:
        raise BrokenFrame(
            f"a frame of {len(data)} bytes is cut off: the header alone has "
            f"{_HEADER.size + _U32.size}"
        )
    length, name, _schema, created, sequence, flags, swapped, digest = _HEADER.unpack_from(data)
    message_type = _message_type(name)
    identity = UUID(bytes=swapped[8:] + swapped[:8])
    if message_type in (START, PAUSE):  # flow control comes without digest and often without id
        return Frame(
            message_type, sequence, b"", flags=flags, message_id=identity, created_ms=created
        )
    payload_type, payload = _payload(length, data)
    if payload and hashlib.sha256(payload).digest() != digest:
        raise BrokenFrame(
            f"the digest of a {message_type} frame (sequence {sequence}) does not match its "
            f"{len(payload)} bytes of payload"
        )
    return Frame(message_type, sequence, payload, payload_type, flags, identity, created)


def _message_type(name: bytes) -> str:
    try:
        text = name.decode("ascii").strip(" \0")
    except UnicodeDecodeError:
        raise BrokenFrame(f"the message type {name!r} is not ASCII") from None
    if not text:
        raise BrokenFrame("a frame names no message type")
    return text


def _payload(length: int, data: bytes) -> tuple[int, bytes]:
    if length == HEADER_LENGTH_WITHOUT_TYPE:
        return 0, data[length + _U32.size :]  # made by the service; only the digest vouches for it
    if length != HEADER_LENGTH:
        raise BrokenFrame(
            f"a header length of {length} is unknown; {HEADER_LENGTH} and "
            f"{HEADER_LENGTH_WITHOUT_TYPE} are"
        )
    if len(data) < length + _U32.size:
        raise BrokenFrame(f"a frame of {len(data)} bytes is cut off inside its header")
    (declared,) = _U32.unpack_from(data, length)
    payload = data[length + _U32.size :]
    if len(payload) != declared:
        raise BrokenFrame(
            f"a frame announces {declared} bytes of payload and carries {len(payload)}"
        )
    return _U32.unpack_from(data, _HEADER.size)[0], payload
