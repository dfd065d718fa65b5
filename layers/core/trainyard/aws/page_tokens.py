"""Opaque page tokens that are bound to their query, so that a token of another list is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json

from trainyard.domain import errors


def encode(query: tuple[str, ...], position: str) -> str:
    """`query` is all that shapes the list but page size; `position` the last item's sort key."""
    return (
        base64.urlsafe_b64encode(json.dumps([_digest(query), position]).encode())
        .decode()
        .rstrip("=")
    )


def decode(query: tuple[str, ...], token: str | None, *, prefix: str = "") -> str | None:
    """The position; None for the first page. Raises errors.BadPageToken."""
    if token is None:
        return None
    try:
        digest, position = json.loads(
            base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        )
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise _bad("is not one that this API gave out") from None
    if digest != _digest(query) or not isinstance(position, str) or not position.startswith(prefix):
        raise _bad("belongs to another list, or to the same list with other parameters")
    return position


def _bad(mistake: str) -> errors.BadPageToken:
    return errors.BadPageToken(f"nextToken: {mistake}")


def _digest(query: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(query).encode()).hexdigest()[:16]
