"""What is sent to a webhook, and the keys that it is signed with."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from trainyard.domain.webhook_records import Delivery, Key, Keys
from trainyard_contracts.user_events import UserEvent

#: A rotated secret signs so long beside the new one.
BOTH_VALID = timedelta(hours=24)
#: Secrets that sign at once, at most.
MOST_KEYS = 3
_SECRET = "whsec_"  # noqa: S105  # the form of one, not one


def body_of(event: UserEvent) -> bytes:
    """What is sent: type, timestamp, and the event."""
    data = event.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"type", "at"})
    at = event.at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    sent = {"type": event.type, "timestamp": at, "data": data}
    return json.dumps(sent, separators=(",", ":"), ensure_ascii=False).encode()


def headers_of(delivery: Delivery, body: bytes, keys: Keys, now: datetime) -> dict[str, str]:
    """Of one try: the time is the try's, and each secret that is valid signs."""
    stamp = str(int(now.timestamp()))
    signed = f"{delivery.id}.{stamp}.".encode() + body
    signatures = [_signature(key.secret, signed) for key in valid(keys, now).keys]
    return {
        "content-type": "application/json",
        "user-agent": "Trainyard",
        "webhook-id": delivery.id,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(signatures),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_SECRET))
    return f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


def secret_of(random: bytes) -> str:
    """Raises ValueError for fewer than 24 bytes, which the specification refuses."""
    if not 24 <= len(random) <= 64:
        raise ValueError(f"a secret has 24 to 64 bytes, not {len(random)}")
    return _SECRET + base64.b64encode(random).decode()


def valid(keys: Keys, now: datetime) -> Keys:
    """Those that sign at this time."""
    return Keys(keys=[key for key in keys.keys if key.until is None or now < key.until])


def rotated(keys: Keys, secret: str, now: datetime) -> Keys:
    """The new secret first; those before it sign for a while yet."""
    older = [
        key if key.until is not None else Key(secret=key.secret, until=now + BOTH_VALID)
        for key in valid(keys, now).keys
    ]
    return Keys(keys=[Key(secret=secret), *older][:MOST_KEYS])


def readable_keys(keys: Sequence[Key]) -> bool:
    """Whether all are secrets that can sign; a person may have written over them."""
    try:
        return bool(keys) and all(
            base64.b64decode(key.secret.removeprefix(_SECRET), validate=True) for key in keys
        )
    except binascii.Error:
        return False
