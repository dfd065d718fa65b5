"""Reads steps and losses of TensorBoard's event files, without TensorBoard.

Such a file is a row of records, each with its length and two checksums; in each lies one protobuf
message, of which four fields matter.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from trainyard_agent.host.job_files import open_inside
from trainyard_agent.jobs.log_steps import LARGEST_STEP, finite
from trainyard_agent.jobs.metric_files import LOOK_BYTES, MetricFiles
from trainyard_agent.jobs.protobuf import fields

#: A larger record holds pictures or graphs, and no step that others do not say.
MOST_RECORD_BYTES = 32 * 1024
_POLYNOMIAL = 0x82F63B78


def _table() -> list[int]:
    """CRC-32C, byte by byte (RFC 3720, appendix B.4 has its polynomial)."""
    found = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return found


_TABLE = _table()


def masked_crc(body: bytes) -> int:
    """The checksum as TFRecord stores it: turned by 15 bits, and a constant added."""
    crc = 0xFFFFFFFF
    for byte in body:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class EventFile:
    """One file that grows; what is not whole yet is read at the next look."""

    def __init__(self, root: Path, path: Path) -> None:
        self._root, self._path = root, path
        self._offset, self.damaged = 0, False

    def read(self) -> tuple[list[tuple[int, dict[str, float]]], bool]:
        """(steps with their values, whether there may be more). Raises OSError."""
        with open_inside(self._root, self._path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size < self._offset:
                self._offset, self.damaged = 0, False
            if self.damaged:
                return [], False
            stream.seek(self._offset)
            window = stream.read(LOOK_BYTES)
        found, at = [], 0
        while len(window) - at >= 12:
            header = window[at : at + 8]
            (length,) = struct.unpack("<Q", header)
            if masked_crc(header) != struct.unpack("<I", window[at + 8 : at + 12])[0]:
                self.damaged = True
                break
            if length <= MOST_RECORD_BYTES:
                body = window[at + 12 : at + 12 + length]
                end = window[at + 12 + length : at + 16 + length]
                if len(end) < 4:
                    break
                if masked_crc(body) != struct.unpack("<I", end)[0]:
                    self.damaged = True
                    break
                found.append(event(body))
            elif self._offset + at + 16 + length > size:
                break
            at += 16 + length
        self._offset += at
        return [one for one in found if one is not None], at > 0


class EventFiles(MetricFiles):
    """All event files below a directory of the program's."""

    def __init__(self, root: Path, name: str) -> None:
        super().__init__(root, name, lambda name: ".tfevents." in name, EventFile)


def event(body: bytes) -> tuple[int, dict[str, float]] | None:
    """Step and values of an Event message; None if it has no value or is malformed.

    Event: step = 2, summary = 5; Summary: value = 1; Value: tag = 1, simple_value = 2, tensor = 8.
    """
    step, values = 0, {}
    try:
        for number, value in fields(body):
            if number == 2 and isinstance(value, int):
                step = value
            elif number == 5 and isinstance(value, bytes):
                for inner, one in fields(value):
                    if inner == 1 and isinstance(one, bytes):
                        tag, figure = _value(one)
                        if figure is not None:
                            values[tag] = figure
    except (ValueError, struct.error, IndexError):
        return None
    return (step, values) if values and 0 <= step <= LARGEST_STEP else None


def _value(body: bytes) -> tuple[str, float | None]:
    tag, figure = "", None
    for number, value in fields(body):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode(errors="replace")
        elif number == 2 and isinstance(value, bytes) and len(value) == 4:
            figure = _float(value)
        elif number == 8 and isinstance(value, bytes):
            figure = _tensor(value)
    return tag, figure


def _tensor(body: bytes) -> float | None:
    """TensorProto of one float: dtype = 1 (DT_FLOAT is 1), tensor_content = 4, float_val = 5."""
    kind, content = 0, b""
    for number, value in fields(body):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number in (4, 5) and isinstance(value, bytes):
            content = value
    return _float(content) if kind == 1 and len(content) == 4 else None


def _float(body: bytes) -> float | None:
    return finite(repr(struct.unpack("<f", body)[0]))
