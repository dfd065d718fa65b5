"""Whether a request is Slack's: its signature covers the raw body, and was made just now.

https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

#: A signature that is older, or from the future by more, is not taken.
LATE_SECONDS = 300
#: Digits of a time; Slack's have ten.
_MOST_DIGITS = 12


def signature(secret: str, stamp: str, body: bytes) -> str:
    """The signature of version v0, as Slack makes it."""
    signed = b"v0:" + stamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def stale(headers: Mapping[str, str], now: float) -> str:
    """Why the time of a request is refused, before any secret is read; '' if it is not."""
    stamp = headers.get("x-slack-request-timestamp", "")
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= _MOST_DIGITS):
        return "X-Slack-Request-Timestamp must be a whole number of seconds"
    if abs(now - int(stamp)) > LATE_SECONDS:
        return f"X-Slack-Request-Timestamp must be within {LATE_SECONDS} seconds of now"
    return ""


def holds(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the request carries the signature of this secret; compared in constant time."""
    given = headers.get("x-slack-signature", "").encode(errors="replace")
    stamp = headers.get("x-slack-request-timestamp", "")
    return bool(secret) and hmac.compare_digest(signature(secret, stamp, body).encode(), given)
