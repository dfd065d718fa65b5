"""Reads steps and losses of the files that Weights & Biases writes, without its package.

Such a file has seven bytes of its own, then LevelDB's log format: blocks of 32 KiB with pieces of
records, each piece with a CRC-32 of its type and body. A record is one protobuf message; those of
metrics hold names and values as JSON.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from trainyard_agent.host.job_files import open_inside
from trainyard_agent.jobs.log_steps import LARGEST_STEP, finite
from trainyard_agent.jobs.metric_files import LOOK_BYTES, MetricFiles
from trainyard_agent.jobs.protobuf import fields

#: A larger record holds tables or histograms, and no step that others do not say.
MOST_RECORD_BYTES = 64 * 1024
_BEGINNING = b":W&B\xe1\xbe\x00"
_BLOCK = 32 * 1024
_PIECE = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
#: The steps that Hugging Face and Lightning log; W&B's own number counts calls of `log`.
_STEPS = ("global_step", "_step")


class WandbFile:
    """One file that grows; what is not whole yet is read at the next look."""

    def __init__(self, root: Path, path: Path) -> None:
        self._root, self._path = root, path
        self._begin()

    def _begin(self) -> None:
        self._offset, self.damaged = 0, False
        #: Of a record whose end is not read yet; None where it is passed over.
        self._part: bytes | None = None

    def read(self) -> tuple[list[tuple[int, dict[str, float]]], bool]:
        """(steps with their values, whether there may be more). Raises OSError."""
        with open_inside(self._root, self._path) as stream:
            if os.fstat(stream.fileno()).st_size < self._offset:
                self._begin()
            if self.damaged:
                return [], False
            stream.seek(self._offset)
            window = stream.read(LOOK_BYTES)
        before = self._offset
        found = [row(body) for body in self._records(window)]
        return [one for one in found if one is not None], self._offset > before

    def _records(self, window: bytes) -> Iterator[bytes]:
        at = 0
        if self._offset == 0:
            if len(window) < len(_BEGINNING):
                return
            at = len(_BEGINNING)
            self.damaged = window[:at] != _BEGINNING
        start = self._offset
        while not self.damaged:
            self._offset = start + at
            left = _BLOCK - self._offset % _BLOCK
            if left < _PIECE.size:  # filled with zeros
                at += left
                continue
            if len(window) - at < _PIECE.size or not any(window[at : at + _PIECE.size]):
                return  # a filesystem may show the length of what is written before the bytes
            crc, length, kind = _PIECE.unpack_from(window, at)
            body = window[at + _PIECE.size : at + _PIECE.size + length]
            if length > left - _PIECE.size or not _WHOLE <= kind <= _LAST:
                self.damaged = True
            elif len(body) < length:
                return
            elif zlib.crc32(body, zlib.crc32(bytes([kind]))) != crc:
                self.damaged = True
            else:
                at += _PIECE.size + length
                yield from self._joined(kind, body)

    def _joined(self, kind: int, body: bytes) -> Iterator[bytes]:
        """The record that this piece is, or is the end of."""
        if kind in (_WHOLE, _FIRST):
            self._part = b""
        if self._part is not None:
            self._part = self._part + body if len(self._part) < MOST_RECORD_BYTES else None
        if kind in (_WHOLE, _LAST):
            if self._part is not None:
                yield self._part
            self._part = None


class WandbFiles(MetricFiles):
    """All of W&B's files below a directory of the program's."""

    def __init__(self, root: Path, name: str) -> None:
        super().__init__(root, name, lambda name: name.endswith(".wandb"), WandbFile)


def row(body: bytes) -> tuple[int, dict[str, float]] | None:
    """Step and values of a Record message; None if it is none of metrics or malformed.

    Record: history = 2; HistoryRecord: item = 1; HistoryItem: key = 1, nested_key = 2 (each part of
    the name), value_json = 16.
    """
    values: dict[str, float] = {}
    try:
        for number, value in fields(body):
            if number == 2 and isinstance(value, bytes):
                for inner, item in fields(value):
                    if inner == 1 and isinstance(item, bytes):
                        name, figure = _item(item)
                        if figure is not None:
                            values[name] = figure
    except (ValueError, IndexError):
        return None
    for last in _STEPS:
        for name, figure in values.items():
            if name.rpartition("/")[2] == last and 0 <= figure <= LARGEST_STEP:
                return int(figure), values
    return None


def _item(body: bytes) -> tuple[str, float | None]:
    names, figure = [], None
    for number, value in fields(body):
        if isinstance(value, bytes):
            if number in (1, 2):
                names.append(value.decode(errors="replace"))
            elif number == 16:
                figure = finite(value.decode(errors="replace"))
    return ".".join(names), figure
