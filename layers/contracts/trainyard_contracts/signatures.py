"""Signs an agent's event with the cluster's key: one bus takes every cluster's events."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

FIELD = "signature"
#: What is signed begins with this, so that no other use of the key gives the same bytes.
_PURPOSE = b"trainyard.event.v1\n"
#: Above it not every whole number is a float.
_WHOLE = 2**53


def signed(kind: str, detail: str, key: bytes) -> str:
    """The event's detail (JSON) with its signature; `kind` is the detail-type."""
    content = json.loads(detail)
    return json.dumps({**content, FIELD: signature(kind, content, key)}, separators=(",", ":"))


def is_signed(kind: str, detail: Mapping[str, Any], key: bytes) -> bool:
    """Whether the holder of this key said exactly this."""
    given = detail.get(FIELD)
    try:
        expected = signature(kind, detail, key)
    except (RecursionError, ValueError, TypeError):  # nothing that an agent would send
        return False
    return isinstance(given, str) and hmac.compare_digest(given.encode(), expected.encode())


def signature(kind: str, detail: Mapping[str, Any], key: bytes) -> str:
    """HMAC-SHA256, in hex, of the detail-type and the detail without its signature.

    The detail holds the event's id and time and the cluster's ARN, so none of them can be
    exchanged.
    """
    said = {name: value for name, value in detail.items() if name != FIELD}
    text = json.dumps(_canonical(said), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hmac.new(key, _PURPOSE + kind.encode() + b"\n" + text.encode(), sha256).hexdigest()


def _canonical(value: Any) -> Any:
    """The same value however a service on the way wrote its numbers: 1.0 and 1 are one."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return int(value)
    if isinstance(value, dict):
        return {name: _canonical(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_canonical(inner) for inner in value]
    return value
