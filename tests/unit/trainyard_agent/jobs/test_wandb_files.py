"""Weights & Biases' files: read as far as they are whole, and no further."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_agent.jobs import wandb_files
from trainyard_agent.jobs.wandb_files import WandbFile, WandbFiles, row

BEGINNING = b":W&B\xe1\xbe\x00"
#: A row as version 0.31 of the package wrote it: six values, at its step 0.
REAL = bytes.fromhex(
    "22ad083b9f0001080a129a010a181211747261696e2f676c6f62616c5f7374657082010231300a0f12096576"
    "616c2f6c6f7373820101390a0c12026c72820105302e3030310a24120a5f74696d657374616d70820115312e"
    "373935343730333132353837323435652b30390a1812085f72756e74696d6582010b312e3633333332363736"
    "370a0b12055f73746570820101300a10120a747261696e2f6c6f7373820101311200"
)


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def logged(**values: object) -> bytes:
    """A record of metrics; two underscores in a name stand for a slash."""
    items = [
        field(1, field(2, name.replace("__", "/").encode()) + field(16, json.dumps(value).encode()))
        for name, value in values.items()
    ]
    return field(2, b"".join(items))


def written(*records: bytes) -> bytes:
    """A file as LevelDB's log format has it, with its blocks of 32 KiB."""
    found = BEGINNING
    for record in records:
        rest, begun = record, False
        while rest or not begun:
            left = 32768 - len(found) % 32768
            if left < 7:
                found += b"\0" * left
                continue
            body, rest = rest[: left - 7], rest[left - 7 :]
            kind = (3 if rest else 4) if begun else (2 if rest else 1)
            crc = zlib.crc32(bytes([kind]) + body)
            found += struct.pack("<IHB", crc, len(body), kind) + body
            begun = True
    return found


def test_a_row_of_a_real_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run-1.wandb"
    path.write_bytes(BEGINNING + REAL)
    ((step, values),) = WandbFile(tmp_path, path).read()[0]
    assert step == 10
    assert {"train/loss": 1.0, "eval/loss": 9.0, "lr": 0.001, "_step": 0}.items() <= values.items()


def test_steps_and_losses_are_read(tmp_path: Path) -> None:
    path = tmp_path / "work/wandb/offline-run-20261123_120000-abc/run-abc.wandb"
    path.parent.mkdir(parents=True)
    rows = [
        logged(train__loss=0.25, train__global_step=300, eval__loss=9.0, _step=3),
        field(13, b"what the program printed"),
        logged(loss=[1, 2], name="loss", _step=4),
    ]
    path.write_bytes(written(*rows))
    files = WandbFiles(tmp_path, "wandb")
    assert files.look()
    assert (files.step, files.loss) == (300, 0.25)
    assert not files.look()
    path.write_bytes(written(*rows, logged(loss=0.125, trainer__global_step=310, _step=5)))
    assert files.look()
    assert (files.step, files.loss) == (310, 0.125)


def test_a_program_that_logs_no_step_has_that_of_the_package(tmp_path: Path) -> None:
    assert row(logged(loss=0.5, _step=7, _runtime=1.5)) == (
        7,
        {"loss": 0.5, "_step": 7.0, "_runtime": 1.5},
    )
    assert row(logged(loss=0.5)) is None
    assert row(logged(loss=0.5, _step=-1)) is None
    assert row(logged(loss=0.5, _step="7 or so")) is None


def test_rows_in_many_blocks_are_read_and_large_ones_passed_over(tmp_path: Path) -> None:
    texts = [logged(text="a" * 50, loss=number, _step=number) for number in range(2000)]
    large = logged(table="b" * wandb_files.MOST_RECORD_BYTES * 2, _step=5000)
    path = tmp_path / "run-1.wandb"
    path.write_bytes(written(*texts[:1000], large, *texts[1000:]))
    file, steps, more = WandbFile(tmp_path, path), [], True
    while more:
        found, more = file.read()
        steps += [step for step, _ in found]
    assert steps == list(range(2000))
    assert not file.damaged


def test_a_row_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "run-1.wandb"
    body = written(logged(loss=0.5, _step=7))
    file = WandbFile(tmp_path, path)
    for end in range(len(body)):
        path.write_bytes(body[:end])
        assert file.read()[0] == []
        assert not file.damaged
    path.write_bytes(body)
    assert file.read()[0] == [(7, {"loss": 0.5, "_step": 7.0})]


def test_a_row_whose_bytes_are_not_there_yet_is_read_when_they_are(tmp_path: Path) -> None:
    path = tmp_path / "run-1.wandb"
    body = written(logged(loss=0.5, _step=7), logged(loss=0.5, _step=8))
    half = written(logged(loss=0.5, _step=7))
    path.write_bytes(half + bytes(len(body) - len(half)))
    file = WandbFile(tmp_path, path)
    assert [step for step, _ in file.read()[0]] == [7]
    path.write_bytes(body)
    assert [step for step, _ in file.read()[0]] == [8]


@pytest.mark.parametrize("at", [0, 4, 6, 20, -1])
def test_after_a_damaged_row_nothing_is_believed(tmp_path: Path, at: int) -> None:
    good = written(logged(loss=0.5, _step=7))
    bad = bytearray(written(logged(loss=0.5, _step=8))[7:])
    bad[at] ^= 0xFF
    path = tmp_path / "run-1.wandb"
    path.write_bytes(good + bytes(bad) + written(logged(loss=1.0, _step=99))[7:])
    file = WandbFile(tmp_path, path)
    assert [step for step, _ in file.read()[0]] == [7]
    assert file.read() == ([], False)


def test_another_file_of_that_name_is_none(tmp_path: Path) -> None:
    path = tmp_path / "notes.wandb"
    path.write_bytes(b"something of somebody's" * 9)
    file = WandbFile(tmp_path, path)
    assert file.read() == ([], False)
    assert file.damaged


@given(st.binary(max_size=200))
def test_any_bytes_are_read(body: bytes) -> None:
    found = row(field(2, field(1, body)))
    assert found is None or found[1]
