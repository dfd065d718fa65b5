"""The specification's schedule of tries."""

from __future__ import annotations

from datetime import timedelta

from tests.support.sent_webhooks import NOW, delivery

from trainyard.domain import webhook_tries
from trainyard.domain.webhook_answers import Answer


def test_the_tries_keep_the_specifications_schedule_and_end() -> None:
    found, now, waits = delivery(), NOW, []
    while found.state == "waiting":
        assert found.due is not None
        now = max(now, found.due)
        assert found.due_at(now)
        found = webhook_tries.settled(webhook_tries.begun(found, now), Answer(500), now)
        if found.due is not None:
            waits.append((found.due - now).total_seconds())
    wanted = [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]
    assert len(waits) == len(wanted)
    assert all(want <= wait <= want * 1.1 for want, wait in zip(wanted, waits, strict=True))
    assert found.state == "failed"
    assert len(found.tries) == 10
    assert found.tries[0].said == "the receiver answered 500"


def test_a_try_that_nobody_heard_of_again_is_followed_by_another() -> None:
    begun = webhook_tries.begun(delivery(), NOW)
    assert not begun.due_at(NOW + timedelta(seconds=60))
    assert begun.due_at(NOW + webhook_tries.IN_HAND)


def test_a_delivery_that_is_sent_again_has_all_its_tries() -> None:
    failed = delivery().changed(state="failed", due=None, attempt=10)
    again = webhook_tries.asked_again(failed, NOW)
    assert again.due_at(NOW)
    assert (
        webhook_tries.settled(webhook_tries.begun(again, NOW), Answer(500), NOW).state == "waiting"
    )
