"""The list of a copy's objects, and the pieces of a large one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trainyard_agent.host.listings import Listed

DIGEST = re.compile(r"([0-9a-f]{32})(?:-([0-9]{1,5}))?")


class Listing(NamedTuple):
    """What a prefix held; the hash is of all names, sizes and ETags."""

    sha256: str
    objects: int
    bytes: int


class Piece(NamedTuple):
    """Bytes of an object that one request fetches."""

    start: int
    bytes: int


def lines_of(path: Path) -> Iterator[Listed]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            name, size, etag = json.loads(line)
            yield Listed(name, size, etag)


def read_listing(path: Path) -> Listing:
    hashed, objects, total = hashlib.sha256(), 0, 0
    for one in lines_of(path):
        hashed.update(json.dumps([one.key, one.bytes, one.etag]).encode())
        objects += 1
        total += one.bytes
    return Listing(hashed.hexdigest(), objects, total)


def done_pieces(path: Path) -> dict[int, bytes]:
    """Pieces of a large object that were fetched before; a line that was cut counts for nothing."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    found = re.findall(r"^([0-9]{1,15}) ([0-9a-f]{32})\n", text, re.MULTILINE)
    return {int(start): bytes.fromhex(digest) for start, digest in found}
