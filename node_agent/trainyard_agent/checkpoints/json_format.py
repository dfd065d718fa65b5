"""Whether a file of JSON is whole."""

from __future__ import annotations

import json
from typing import IO

from trainyard_agent.checkpoints.torn import Torn

#: A JSON file beside the weights is read up to this size, and so is safetensors' header.
JSON_BYTES = 64 * 1024 * 1024


def prove_json(stream: IO[bytes], name: str, size: int) -> bool:
    if size > JSON_BYTES:
        return False
    try:
        json.load(stream)
    except (ValueError, RecursionError) as error:
        if getattr(error, "msg", "") == "Extra data":
            return False  # more than one value: lines of JSON, which end wherever they end
        raise Torn(f"{name} is cut off") from error
    return True
