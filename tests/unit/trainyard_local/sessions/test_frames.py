"""The local cloud's frame codec: what it writes it reads, and what is no frame it refuses."""

from __future__ import annotations

import hashlib
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_local.sessions.frames import Frame, FrameError, decode

FRAMES = st.builds(
    Frame,
    message_type=st.sampled_from(
        ["input_stream_data", "output_stream_data", "acknowledge", "start_publication"]
    ),
    sequence=st.integers(0, 2**63 - 1),
    payload=st.binary(max_size=2000),
    payload_type=st.integers(0, 2**32 - 1),
    flags=st.integers(0, 2**64 - 1),
    message_id=st.uuids(),
    created_ms=st.integers(1, 2**64 - 1),
)


@given(FRAMES)
def test_a_frame_reads_back_as_it_was_written(frame: Frame) -> None:
    assert decode(frame.encode()) == frame


@given(FRAMES, st.data())
def test_a_truncated_frame_is_refused(frame: Frame, data: st.DataObject) -> None:
    encoded = frame.encode()
    with pytest.raises(FrameError):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(st.binary(max_size=400))
def test_no_bytes_raise_anything_but_a_frame_error(data: bytes) -> None:
    try:
        decode(data)
    except FrameError:
        pass


def test_the_layout_is_the_published_one() -> None:
    identity = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    data = Frame(
        "output_stream_data", 7, b"hi", 1, flags=3, message_id=identity, created_ms=1234
    ).encode()
    assert struct.unpack_from(">I", data, 0) == (116,)
    assert data[4:36] == b"output_stream_data" + b" " * 14
    assert struct.unpack_from(">IQqQ", data, 36) == (1, 1234, 7, 3)
    assert data[64:80] == identity.bytes[8:] + identity.bytes[:8]
    assert data[80:112] == hashlib.sha256(b"hi").digest()
    assert struct.unpack_from(">II", data, 112) == (1, 2)
    assert data[120:] == b"hi"


def test_channel_closed_has_the_short_header() -> None:
    data = Frame("channel_closed", 0, b"{}").encode()
    assert struct.unpack_from(">I", data, 0) == (112,)
    assert struct.unpack_from(">I", data, 112) == (2,)
    assert data[116:] == b"{}"
    assert decode(data).payload == b"{}"


def test_a_changed_payload_is_noticed() -> None:
    data = bytearray(Frame("output_stream_data", 0, b"hello").encode())
    data[-1] ^= 1
    with pytest.raises(FrameError, match="digest"):
        decode(bytes(data))
