"""Event ids (ULIDs) made on the node, and the patterns of the ids that commands bring."""

from __future__ import annotations

import re
import secrets
import time

RUN_ID = re.compile(r"^run-[0-9a-hjkmnp-tv-z]{26}$")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid() -> str:
    """A 26-character ULID: 48 bits of milliseconds, 80 random bits, sortable by time."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
