"""Writes the loss and the speed of a training as TensorBoard reads them, without TensorBoard.

An event file is a row of records: a length, its checksum, one protobuf message, its checksum. Four
of the message's fields are needed, so they are written here byte by byte.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path

#: In a run's directory; its attempts write files of their own there, which TensorBoard joins.
DIRECTORY = "tensorboard"
#: Between two points of a curve, in seconds.
EVERY_SECONDS = 1.0
_POLYNOMIAL = 0x82F63B78  # CRC-32C, its bits in reverse order
_START = 1  # SessionLog.START


class Curves:
    """One attempt's event file; rank 0 only.

    A resume tells TensorBoard to forget what the attempt before drew beyond its checkpoint. What
    cannot be written costs the curves, and never the training.
    """

    def __init__(self, directory: Path, *, resumed_from: int | None) -> None:
        host = "".join(one for one in socket.gethostname() if one.isalnum() or one in ".-")
        name = f"events.out.tfevents.{int(time.time()):010d}.{host or 'host'}.{os.getpid()}.0"
        self._path, self._failed, self._written = directory / name, False, -math.inf
        first = event(0, file_version=b"brain.Event:2")
        if resumed_from is not None:
            first += event(resumed_from + 1, session_log=_field(1, _varint(_START)))
        self._append(first, make=directory)

    def add(self, step: int, values: Mapping[str, float | None], *, last: bool = False) -> None:
        """Draw the values that are finite numbers, once a second at most."""
        now = time.monotonic()
        if not last and now - self._written < EVERY_SECONDS:
            return
        self._written = now
        known = {name: value for name, value in values.items() if value is not None}
        self._append(event(step, summary=summary(known)))

    def _append(self, body: bytes, *, make: Path | None = None) -> None:
        if self._failed:
            return
        try:
            if make is not None:
                make.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab") as stream:
                stream.write(body)
        except OSError as error:
            self._failed = True
            print(f"trainyard: no more curves are written: {error}", file=sys.stderr, flush=True)


def summary(values: Mapping[str, float]) -> bytes:
    """Summary: value = 1; each with tag = 1 and simple_value = 2."""
    return b"".join(
        _bytes(1, _bytes(1, name.encode()) + _key(2, 5) + struct.pack("<f", _single(value)))
        for name, value in values.items()
        if math.isfinite(value)
    )


def _single(value: float) -> float:
    """What a number of 32 bits can hold."""
    largest = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
    return float(max(-largest, min(largest, value)))


def event(
    step: int,
    *,
    file_version: bytes | None = None,
    summary: bytes | None = None,
    session_log: bytes | None = None,
) -> bytes:
    """A record with an Event: wall_time = 1, step = 2, and one of what it can be."""
    body = _key(1, 1) + struct.pack("<d", time.time()) + _field(2, _varint(step))
    for number, part in ((3, file_version), (5, summary), (7, session_log)):
        if part is not None:
            body += _bytes(number, part)
    length = struct.pack("<Q", len(body))
    return length + _checksum(length) + body + _checksum(body)


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _field(number: int, varint: bytes) -> bytes:
    return _key(number, 0) + varint


def _bytes(number: int, body: bytes) -> bytes:
    return _key(number, 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _row(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_row(byte) for byte in range(256)]


def _checksum(body: bytes) -> bytes:
    """CRC-32C as a record has it: turned by 15 bits, and a constant added."""
    crc = 0xFFFFFFFF
    for byte in body:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    turned = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
    return struct.pack("<I", (turned + 0xA282EAD8) & 0xFFFFFFFF)
