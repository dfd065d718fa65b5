"""Takes apart what CloudWatch Logs hands over for a subscription: one envelope for each line."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

#: Of the envelope of a line; a backend reads those of its own groups.
LOG_SOURCE = "aws.logs"
LOG_LINE = "CloudWatch Logs Line"
#: Logs sends at most 6 MB, which is what a function takes; text packs to a tenth at best.
_LARGEST = 64 * 1024 * 1024


def envelopes(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The event itself, or the lines that it carries. [] for a control message, or what is torn."""
    packed = event.get("awslogs")
    if not isinstance(packed, Mapping):
        return [event]
    batch = _unpacked(str(packed.get("data") or ""))
    if batch is None or batch.get("messageType") != "DATA_MESSAGE":
        return []
    about = {name: batch.get(name) for name in ("logGroup", "logStream", "owner")}
    named = [str(name) for name in batch.get("subscriptionFilters") or []]
    return [
        {
            "source": LOG_SOURCE,
            "detail-type": LOG_LINE,
            "id": str(line.get("id") or ""),
            "detail": {**about, "filters": named, "message": str(line.get("message") or "")},
        }
        for line in batch.get("logEvents") or []
        if isinstance(line, Mapping)
    ]


def _unpacked(data: str) -> dict[str, Any] | None:
    try:
        reader = zlib.decompressobj(wbits=31)  # a gzip header is expected
        text = reader.decompress(base64.b64decode(data, validate=True), _LARGEST)
        found = json.loads(text)
    except (ValueError, zlib.error):
        return None
    return found if isinstance(found, dict) and not reader.unconsumed_tail else None
