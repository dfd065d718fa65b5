"""How events are sent by Standard Webhooks 1.0: signed, tried again, held back and given up."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from trainyard.domain.addresses import address_of, why_not_public
from trainyard.domain.notices import Notice
from trainyard.domain.webhook_records import MOST_TRIES, Delivery, Key, Keys, Try, Webhook
from trainyard_contracts.user_events import UserEvent

#: Of each try after the one before it, as the specification's example has them.
WAITS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
)
#: Tries of a delivery until it is given up.
MOST_IN_A_ROW: Final = len(WAITS) + 1
#: A try that nobody heard of again, because its process died, is followed by none sooner.
IN_HAND = timedelta(seconds=90)
#: A rotated secret signs so long beside the new one.
BOTH_VALID = timedelta(hours=24)
#: Secrets that sign at once, at most.
MOST_KEYS = 3
#: A receiver that took nothing for so long is disabled.
FAILING = timedelta(days=1)
#: A receiver may not ask for more.
LONGEST_HOLD = timedelta(days=1)
#: Where it names no time.
SHORT_HOLD = timedelta(minutes=1)
#: Answers that ask for less, with or without Retry-After.
_SLOW_DOWN = frozenset({429, 502, 503, 504})
_GONE = 410
_SECRET = "whsec_"  # noqa: S105  # the form of one, not one
_HOST = re.compile(r"[0-9a-z._-]+|[0-9a-f:.]+")  # a name, or an address
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a resolver takes such a name for an address
_LOCAL_NAMES = (".local", ".localhost", ".internal", ".home.arpa")


@dataclass(frozen=True)
class Answer:
    """What came of a request: a status, or why there was none."""

    status: int | None
    said: str = ""
    retry_after: str = ""

    @property
    def outcome(self) -> Literal["delivered", "gone", "slow", "failed"]:
        if self.status is None:
            return "failed"
        if 200 <= self.status < 300:
            return "delivered"
        if self.status == _GONE:
            return "gone"
        return "slow" if self.status in _SLOW_DOWN else "failed"

    @property
    def why(self) -> str:
        """'' of one that succeeded."""
        if self.outcome == "delivered":
            return ""
        if self.status is None:
            return self.said
        if 300 <= self.status < 400:
            return f"the receiver answered {self.status}; redirects are not followed"
        return f"the receiver answered {self.status}"


def refusal_of(url: str, *, loopback: bool) -> str:
    """Why nothing is sent to this URL, whatever its name means; '' if it may be.

    `loopback`: receivers on this machine are allowed, without TLS, too.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is no URL; give one such as https://example.com/trainyard"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has characters that no URL has; write them as %XX"
    host = parts.hostname or ""
    if not _HOST.fullmatch(host) or port == 0:
        return "names no host; give one such as https://example.com/trainyard"
    if parts.username is not None or parts.password is not None:
        return "has a user or a password; a receiver knows us by the signature"
    if parts.fragment:
        return "has a part after #, which is never sent; leave it out"
    if loopback and is_loopback(host):
        return "" if parts.scheme in ("http", "https") else _NOT_HTTPS
    return _refusal_of_public(parts, host)


_NOT_HTTPS = "does not begin with https://; events are sent encrypted only"


def _refusal_of_public(parts: SplitResult, host: str) -> str:
    if parts.scheme != "https":
        return _NOT_HTTPS
    address = address_of(host)
    if address is not None:
        why = why_not_public(address)
        return f"has an address that is {why}; give one of the internet" if why else ""
    name = host.rstrip(".")
    numbered = _NUMBER.fullmatch(name.rpartition(".")[2])
    if "." not in name or name.endswith(_LOCAL_NAMES) or numbered:
        return "has a name that is not of the internet; give one such as example.com"
    return ""


def is_loopback(host: str) -> bool:
    address = address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def wants(webhook: Webhook, event: UserEvent) -> bool:
    """Whether it is sent: of these types and labels, and nothing from before it was made."""
    spec = webhook.spec
    if webhook.status != "Active" or event.at < webhook.created_at:
        return False
    if spec.types and event.type not in spec.types:
        return False
    labels = event.run.labels if event.run else {}
    return all(labels.get(name) == value for name, value in spec.labels.items())


def delivery_of(webhook: Webhook, event: UserEvent, now: datetime) -> Delivery:
    """The same for each copy of the event."""
    digest = hashlib.sha256(f"{webhook.id}/{event.id}".encode()).hexdigest()[:20]
    at = event.at.astimezone(timezone.utc)
    return Delivery(
        id=f"msg-{at:%Y%m%d%H%M%S}-{digest}",
        webhook_id=webhook.id,
        event=event,
        due=now,
        created_at=now,
        updated_at=now,
    )


def begun(delivery: Delivery, now: datetime) -> Delivery:
    """A try is about to be made. If nothing more is heard of it, the next comes as after one that
    failed.
    """
    tries = [*delivery.tries, Try(at=now)][-MOST_TRIES:]
    wait = max([IN_HAND, *WAITS[delivery.attempt : delivery.attempt + 1]])
    return delivery.changed(attempt=delivery.attempt + 1, tries=tries, due=now + wait)


def settled(delivery: Delivery, answer: Answer, now: datetime) -> Delivery:
    """The try that was begun is over."""
    tries = [*delivery.tries[:-1], _over(delivery.tries[-1], answer)]
    if answer.outcome == "delivered":
        return delivery.changed(state="delivered", due=None, tries=tries)
    if answer.outcome == "gone" or exhausted(delivery):
        return delivery.changed(state="failed", due=None, tries=tries)
    wait = _with_jitter(WAITS[delivery.attempt - 1], f"{delivery.id}/{delivery.attempt}")
    due = now + max(wait, hold_of(answer, now))
    return delivery.changed(due=due, tries=tries)


def exhausted(delivery: Delivery) -> bool:
    return delivery.attempt >= MOST_IN_A_ROW


def given_up(delivery: Delivery) -> Delivery:
    """After its last try, of which nothing was heard again."""
    last = delivery.tries[-1].changed(said="the process that sent it died")
    return delivery.changed(state="failed", due=None, tries=[*delivery.tries[:-1], last])


def _over(tried: Try, answer: Answer) -> Try:
    return tried.changed(status=answer.status, said=answer.why)


def _with_jitter(wait: timedelta, of: str) -> timedelta:
    """Up to a tenth longer, so that what failed at once is not tried again at once."""
    part = hashlib.sha256(of.encode()).digest()[0] / 255
    return wait * (1 + part / 10)


def asked_again(delivery: Delivery, now: datetime) -> Delivery:
    """A person wants it sent once more, with all tries."""
    return delivery.changed(state="waiting", due=now, attempt=0)


def hold_of(answer: Answer, now: datetime) -> timedelta:
    """How long the receiver wants to be left alone."""
    least = SHORT_HOLD if answer.outcome == "slow" else timedelta(0)
    if answer.status is None or answer.outcome == "delivered":
        return least
    return _retry_after(answer.retry_after.strip(), now) or least


def _retry_after(text: str, now: datetime) -> timedelta | None:
    """None where it says nothing that can be read."""
    if text.isascii() and text.isdecimal():
        asked = timedelta(seconds=min(int(text[:10]), 10**9))
    else:
        try:
            until = parsedate_to_datetime(text)
        except (TypeError, ValueError, OverflowError):  # the last of a year of twenty digits
            return None
        if until.tzinfo is None:
            until = until.replace(tzinfo=timezone.utc)
        asked = until - now
    return min(max(asked, timedelta(0)), LONGEST_HOLD)


def heard(webhook: Webhook, answer: Answer, now: datetime) -> Webhook:
    """The receiver after an answer: it may have to be held back, or disabled."""
    if answer.outcome == "delivered":
        return webhook.changed(failing_since=None, failed_at=None, held_until=None)
    since = webhook.failing_since or now
    if answer.outcome == "gone":
        return _disabled(webhook, since, "it answered 410: it wants nothing more")
    if now - since >= FAILING:
        return _disabled(webhook, since, f"it took nothing for a day; {answer.why}")
    hold, held = hold_of(answer, now), webhook.held_until
    if hold:
        held = max(now + hold, held or now)
    return webhook.changed(failing_since=since, failed_at=now, held_until=held)


def _disabled(webhook: Webhook, since: datetime, why: str) -> Webhook:
    return webhook.changed(status="Disabled", disabled_because=why, failing_since=since)


def enabled(webhook: Webhook) -> Webhook:
    """A person says that the receiver is there again."""
    return webhook.changed(
        status="Active",
        disabled_because="",
        failing_since=None,
        failed_at=None,
        held_until=None,
    )


def notice_of(webhook: Webhook, now: datetime) -> Notice:
    """People hear of a receiver that is disabled, once for each time that it is."""
    since = (webhook.failing_since or now).isoformat()
    host = urlsplit(webhook.spec.url).hostname
    return Notice(
        id=f"{webhook.id}/disabled/{since}",
        at=now,
        type="webhook.disabled",
        message=f"Webhook {webhook.id} ({host}) is Disabled: {webhook.disabled_because}.",
        webhook_id=webhook.id,
    )


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
