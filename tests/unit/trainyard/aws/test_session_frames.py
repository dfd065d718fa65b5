"""Frames, and the client's half of a conversation, in every disorder of a data channel."""

from __future__ import annotations

import contextlib
import json
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.session_service import (
    channel_closed,
    output,
    raw_frame,
    read_frame,
)

from trainyard.aws import session_frames as frames
from trainyard.aws.session_frames import BrokenFrame, Frame

FRAMES = st.builds(
    Frame,
    message_type=st.sampled_from([frames.INPUT, frames.OUTPUT, frames.ACKNOWLEDGE]),
    sequence=st.integers(0, 2**62),
    payload=st.binary(max_size=2000),
    payload_type=st.integers(0, 2**32 - 1),
    flags=st.integers(0, 3),
    message_id=st.uuids(),
    created_ms=st.integers(1, 2**63),
)


@given(FRAMES)
def test_a_frame_survives_encoding_and_decoding(frame: Frame) -> None:
    assert frames.decode(frames.encode(frame)) == frame


@given(FRAMES)
def test_the_service_reads_our_frames_by_its_own_offsets(frame: Frame) -> None:
    read = read_frame(frames.encode(frame))
    assert (read.message_type, read.sequence, read.message_id, read.payload) == (
        frame.message_type, frame.sequence, frame.message_id, frame.payload,
    )  # fmt: skip
    assert (read.payload_type, read.flags) == (frame.payload_type, frame.flags)


def test_the_halves_of_the_message_id_are_swapped_on_the_wire() -> None:
    identity = uuid.UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
    data = frames.encode(Frame(frames.INPUT, 0, b"", message_id=identity, created_ms=1))
    assert data[64:80] == bytes([8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7])


@given(FRAMES, st.data())
def test_a_frame_cut_off_anywhere_is_refused(frame: Frame, data: st.DataObject) -> None:
    whole = frames.encode(frame)
    with pytest.raises(BrokenFrame):
        frames.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=400))
def test_garbage_is_refused_or_read_but_never_crashes(garbage: bytes) -> None:
    with contextlib.suppress(BrokenFrame):
        assert frames.decode(garbage).message_type


def test_a_changed_payload_is_refused_by_its_digest() -> None:
    data = bytearray(output(0, b"step 100"))
    data[-1] ^= 1
    with pytest.raises(BrokenFrame, match="digest"):
        frames.decode(bytes(data))


def test_bytes_after_the_payload_are_refused() -> None:
    with pytest.raises(BrokenFrame, match="announces 2 bytes of payload and carries 3"):
        frames.decode(output(0, b"ab") + b"c")


def test_an_unknown_header_length_is_refused() -> None:
    data = bytearray(output(0, b"x"))
    data[0:4] = struct.pack(">I", 64)
    with pytest.raises(BrokenFrame, match="header length of 64"):
        frames.decode(bytes(data))


def test_the_112_byte_channel_closed_is_read() -> None:
    frame = frames.decode(channel_closed("Unable to start command"))
    assert frame.message_type == frames.CHANNEL_CLOSED
    assert json.loads(frame.payload)["Output"] == "Unable to start command"


def test_flow_control_needs_neither_digest_nor_payload() -> None:
    assert (
        frames.decode(raw_frame("pause_publication", 0, b"?", digest=bytes(32))).message_type
        == frames.PAUSE
    )
