"""Whether a file of safetensors is whole."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO

from trainyard_agent.checkpoints.json_format import JSON_BYTES
from trainyard_agent.checkpoints.torn import Torn


def prove_safetensors(stream: IO[bytes], name: str, size: int) -> None:
    """A header that says how much follows it."""
    (length,) = struct.unpack("<Q", (stream.read(8) + b"\0" * 8)[:8])
    if length > min(JSON_BYTES, size - 8):
        raise Torn(f"{name}: it ends early")
    try:
        header = json.loads(stream.read(length))
        ends = [_end(entry) for key, entry in header.items() if key != "__metadata__"]
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise Torn(f"{name}: its header is not one of safetensors") from error
    wanted = 8 + length + max(ends, default=0)
    if wanted != size:
        raise Torn(f"{name} has {size} bytes, its header says {wanted}")


def _end(entry: Mapping[str, list[int]]) -> int:
    return int(entry["data_offsets"][1])
