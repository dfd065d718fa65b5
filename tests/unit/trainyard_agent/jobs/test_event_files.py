"""TensorBoard's files: read as far as they are whole, and no further."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_agent.jobs import event_files
from trainyard_agent.jobs.event_files import EventFile, EventFiles, event, masked_crc


def field(number: int, kind: int, body: bytes) -> bytes:
    """`kind`: protobuf's wire type; numbers here are all below 128."""
    size = bytes([len(body)]) if kind == 2 else b""
    return bytes([number << 3 | kind]) + size + body


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def scalar(step: int, tag: str, value: float, *, tensor: bool = False) -> bytes:
    number = struct.pack("<f", value)
    inner = field(2, 5, number)
    if tensor:
        inner = field(8, 2, field(1, 0, b"\1") + field(4, 2, number))
    summary = field(1, 2, field(1, 2, tag.encode()) + inner)
    return field(1, 1, struct.pack("<d", 1.0)) + field(2, 0, varint(step)) + field(5, 2, summary)


def record(body: bytes) -> bytes:
    header = struct.pack("<Q", len(body))
    ends = [struct.pack("<I", masked_crc(part)) for part in (header, body)]
    return header + ends[0] + body + ends[1]


VERSION = record(field(1, 1, struct.pack("<d", 1.0)) + field(3, 2, b"brain.Event:2"))


def test_checksums_are_those_of_real_files() -> None:
    crc = 0xE3069283  # of '123456789' (RFC 3720)
    turned = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
    assert masked_crc(b"123456789") == (turned + 0xA282EAD8) & 0xFFFFFFFF
    # The first twelve bytes of every event file that TensorFlow and PyTorch write.
    assert VERSION[:12] == b'\x18\0\0\0\0\0\0\0\xa3\x7fK"'


@pytest.mark.parametrize("tensor", [False, True])
def test_steps_and_losses_are_read(tmp_path: Path, tensor: bool) -> None:
    path = tmp_path / "work/runs/a/events.out.tfevents.1.host"
    path.parent.mkdir(parents=True)
    said = [
        scalar(300, "train/loss", 0.25, tensor=tensor),
        scalar(300, "train/lr", 0.1, tensor=tensor),
        scalar(300, "eval/loss", 9.0, tensor=tensor),
        scalar(200, "train/loss", 0.5, tensor=tensor),
    ]
    path.write_bytes(VERSION + b"".join(map(record, said)))
    files = EventFiles(tmp_path, "runs")
    assert files.look()
    assert (files.step, files.loss) == (300, 0.25)
    assert not files.look()
    with path.open("ab") as stream:
        stream.write(record(scalar(301, "val_loss", 9.0)) + record(scalar(302, "loss", 0.125)))
    assert files.look()
    assert (files.step, files.loss) == (302, 0.125)


def test_a_record_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    body = VERSION + record(scalar(7, "loss", 0.5))
    path = tmp_path / "events"
    file = EventFile(tmp_path, path)
    for end in range(len(body)):
        path.write_bytes(body[:end])
        assert file.read()[0] == []
        assert not file.damaged
    path.write_bytes(body)
    assert file.read()[0] == [(7, {"loss": 0.5})]


def test_a_large_record_is_passed_over(tmp_path: Path) -> None:
    picture = record(field(1, 1, b"picture!") + b"\0" * event_files.MOST_RECORD_BYTES * 4)
    path = tmp_path / "events"
    path.write_bytes(VERSION + picture + record(scalar(7, "loss", 0.5)))
    file = EventFile(tmp_path, path)
    assert [*file.read()[0], *file.read()[0]] == [(7, {"loss": 0.5})]


@pytest.mark.parametrize("at", [0, 8, 14, -1])
def test_after_a_damaged_record_nothing_is_believed(tmp_path: Path, at: int) -> None:
    bad = bytearray(record(scalar(9, "loss", 0.5)))
    bad[at] ^= 0xFF
    path = tmp_path / "events"
    path.write_bytes(record(scalar(7, "loss", 0.5)) + bytes(bad) + record(scalar(99, "loss", 1.0)))
    file = EventFile(tmp_path, path)
    assert file.read()[0] == [(7, {"loss": 0.5})]
    assert file.damaged
    assert file.read() == ([], False)


@given(st.binary(max_size=200))
def test_any_bytes_are_read(body: bytes) -> None:
    found = event(body)
    assert found is None or found[1]
