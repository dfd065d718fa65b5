"""What a receiver's answers make of its webhook: held back, or switched off."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from trainyard.domain.webhook_answers import Answer
from trainyard.domain.webhook_records import Webhook

#: A receiver that took nothing for so long is disabled.
FAILING = timedelta(days=1)
#: A receiver may not ask for more.
LONGEST_HOLD = timedelta(days=1)
#: Where it names no time.
SHORT_HOLD = timedelta(minutes=1)


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
