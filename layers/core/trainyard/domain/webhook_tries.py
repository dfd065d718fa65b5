"""When a delivery is tried again, and when it is given up."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Final

from trainyard.domain.webhook_answers import Answer
from trainyard.domain.webhook_health import hold_of
from trainyard.domain.webhook_records import MOST_TRIES, Delivery, Try

#: Of each try after the one before it, as the specification's example has them.
WAITS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
)
#: Tries of a delivery until it is given up.
MOST_IN_A_ROW: Final = len(WAITS) + 1
#: A try that nobody heard of again, because its process died, is followed by none sooner.
IN_HAND = timedelta(seconds=90)


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
