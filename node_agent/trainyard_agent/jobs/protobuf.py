"""Reads the fields of a protobuf message, without protobuf."""

from __future__ import annotations

from collections.abc import Iterator


def fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: varints as numbers, all others as bytes.

    Raises ValueError, IndexError.
    """
    at = 0
    while at < len(body):
        key, at = _varint(body, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(body, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(body, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > len(body):
            raise ValueError("a field ends early")
        yield key >> 3, body[at : at + length]
        at += length


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")
