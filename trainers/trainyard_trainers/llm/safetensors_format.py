"""Reads and writes the safetensors file format in blocks of rows, so that no model and no tensor
ever has to be whole in memory.

A file is eight bytes with the length of its header (little endian), the header (JSON: name ->
dtype, shape, place), and the tensors' bytes in rows. The safetensors library writes tensors that
are in memory all at once, which is why this is here; files are alike for both.
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_HEADER_LIMIT = 100_000_000
_BLOCK_BYTES = 8 << 20
#: What Python and torch raise about a file that is not what it should be. A header deep in brackets
#: is a RecursionError, so a RuntimeError.
_DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RuntimeError,
    struct.error,
)


@dataclass(frozen=True)
class Entry:
    """A tensor as a header names it."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write(path: Path, entries: Sequence[Entry], blocks: Callable[[str], Iterator[Tensor]]) -> None:
    """Write a file; `blocks` gives a tensor's rows one after the other.

    Raises ValueError if they are not what the entry says, and OSError.
    """
    header: dict[str, Any] = {
        "__metadata__": {"format": "pt"}
    }  # transformers refuses files without it
    offset = 0
    for entry in entries:
        place = [offset, offset + entry.nbytes]
        header[entry.name] = {
            "dtype": _NAMES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": place,
        }
        offset = place[1]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors begin aligned
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for entry in entries:
            written = 0
            for block in blocks(entry.name):
                written += _put(stream, block.to(entry.dtype))
            if written != entry.nbytes:
                raise ValueError(
                    f"{path}: {entry.name} should have {entry.nbytes} bytes, but {written} came"
                )
        stream.flush()
        os.fsync(stream.fileno())


def _put(stream: BinaryIO, tensor: Tensor) -> int:
    """Write a tensor's memory, which torch lends to Python only through numpy, or by its
    address.
    """
    tensor = tensor.contiguous()
    return (
        stream.write((ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr()))
        if tensor.nbytes
        else 0
    )


class File:
    """One file. Every error is a ValueError that names it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                (length,) = struct.unpack("<Q", stream.read(8))
                if length > min(size - 8, _HEADER_LIMIT):
                    raise ValueError(f"its header would have {length} bytes, the file has {size}")
                header = json.loads(stream.read(length))
            self._start = 8 + length
            self.entries = {
                name: self._entry(name, value, size)
                for name, value in header.items()
                if name != "__metadata__"
            }
            self._places = {name: header[name]["data_offsets"][0] for name in self.entries}
        except _DAMAGE as error:
            raise ValueError(f"{path} is not a whole safetensors file: {error}") from error

    def _entry(self, name: str, value: Mapping[str, Any], size: int) -> Entry:
        if value["dtype"] not in _DTYPES:
            raise ValueError(f"{name} has dtype {value['dtype']}; {', '.join(_DTYPES)} are read")
        entry = Entry(name, _DTYPES[value["dtype"]], _counts(value["shape"]))
        begin, end = _counts(value["data_offsets"])
        if end - begin != entry.nbytes or self._start + end > size:
            raise ValueError(
                f"{name} lies at bytes {begin} to {end} of {size - self._start}, and should have "
                f"{entry.nbytes}"
            )
        return entry

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows start..stop (exclusive) of a tensor."""
        try:
            return self._rows(self.entries[name], start, stop)
        except _DAMAGE as error:
            raise ValueError(f"{self.path}: {name} cannot be read: {error}") from error

    def _rows(self, entry: Entry, start: int, stop: int) -> Tensor:
        shape = (stop - start, *entry.shape[1:])
        width = math.prod(entry.shape[1:]) * entry.dtype.itemsize
        data = bytearray((stop - start) * width)
        with open(self.path, "rb") as stream:
            stream.seek(self._start + self._places[entry.name] + start * width)
            if stream.readinto(data) != len(data):
                raise ValueError(f"the file ends within {entry.name}")
        return (
            torch.frombuffer(data, dtype=entry.dtype).view(shape)
            if data
            else torch.empty(shape, dtype=entry.dtype)
        )


def _counts(found: Sequence[Any]) -> tuple[int, ...]:
    """Lengths or places. Raises ValueError."""
    if not all(type(number) is int and number >= 0 for number in found):
        raise ValueError(f"{found} should be whole numbers from zero")
    return tuple(found)


class Directory:
    """The tensors of a Hugging Face directory, in one file or in many with an index.

    Every error is a ValueError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        files = [File(path / name) for name in self._file_names()]
        self._by_name = {name: file for file in files for name in file.entries}

    def _file_names(self) -> list[str]:
        index = self.path / INDEX
        if not index.is_file():
            if (self.path / SINGLE).is_file():
                return [SINGLE]
            raise ValueError(
                f"{self.path}: there is neither {SINGLE} nor {INDEX}; other kinds of weights "
                "(pytorch_model.bin) are not read"
            )
        try:
            named = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            names = sorted(set(named))
        except _DAMAGE as error:
            raise ValueError(f"{index} cannot be read: {error!r}") from error
        for name in names:
            if not isinstance(name, str) or Path(name).name != name:
                raise ValueError(f"{index}: {name} is no file of the directory")
        return names

    def names(self) -> list[str]:
        return list(self._by_name)

    def entry(self, name: str) -> Entry:
        """Raises ValueError if there is no such tensor."""
        if name not in self._by_name:
            raise ValueError(f"{self.path}: there is no tensor {name}")
        return self._by_name[name].entries[name]

    def blocks(self, name: str, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        """Rows start..stop in blocks of about 8 MB."""
        shape, dtype = self.entry(name).shape, self.entry(name).dtype
        if not shape:
            raise ValueError(f"{self.path}: {name} is one number and has no rows")
        stop = shape[0] if stop is None else stop
        step = max(1, _BLOCK_BYTES // max(1, math.prod(shape[1:]) * dtype.itemsize))
        for first in range(start, stop, step):
            yield self._by_name[name].rows(name, first, min(first + step, stop))
