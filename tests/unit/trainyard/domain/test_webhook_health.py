"""Receivers in trouble."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from tests.support.sent_webhooks import NOW, delivery, webhook

from trainyard.domain import webhook_health, webhook_tries, webhooks
from trainyard.domain.webhook_answers import Answer


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Answer(503, retry_after="120"), 120),
        (Answer(429, retry_after="7200"), 7200),
        (Answer(429), 60),
        (Answer(502), 60),
        (Answer(503, retry_after="soon"), 60),
        (Answer(503, retry_after="-5"), 60),
        (Answer(429, retry_after="9" * 400), 86400),
        (Answer(500, retry_after="30"), 30),
        (Answer(500), 0),
        (Answer(None, "no answer", retry_after="500"), 0),
    ],
)
def test_a_receiver_that_asks_for_less_is_held_back(answer: Answer, seconds: int) -> None:
    hold = timedelta(seconds=seconds)
    assert webhook_health.hold_of(answer, NOW) == hold
    after = webhook_health.heard(webhook(), answer, NOW)
    assert after.held(NOW + hold - timedelta(seconds=1)) == (seconds > 0)
    assert not after.held(NOW + hold)
    due = webhook_tries.settled(webhook_tries.begun(delivery(), NOW), answer, NOW).due
    assert due is not None
    assert due >= NOW + max(hold, timedelta(seconds=5))


def test_a_time_to_come_again_may_be_a_date() -> None:
    at = datetime(2026, 11, 28, 12, 0, tzinfo=timezone.utc)
    answer = Answer(503, retry_after="Sat, 28 Nov 2026 12:10:00 GMT")
    assert webhook_health.hold_of(answer, at) == timedelta(minutes=10)
    assert webhook_health.hold_of(answer, at + timedelta(hours=1)) == webhook_health.SHORT_HOLD


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2026 00:00:00 +99999999999999",
        "Mon, 99999999999999999 Jan 2026 00:00:00 GMT",
        "Mon, 01 Jan 2026 25:61:61 GMT",
        "\x00",
        "-1",
        "1e9",
        "\u0661\u0662",
    ],
)
def test_a_time_that_is_none_is_as_if_it_were_not_said(text: str) -> None:
    answer = Answer(503, retry_after=text)
    assert webhook_health.hold_of(answer, NOW) == webhook_health.SHORT_HOLD


def test_a_receiver_that_wants_nothing_more_is_disabled_at_once() -> None:
    after = webhook_health.heard(webhook(), Answer(410), NOW)
    assert (after.status, after.disabled_because) == (
        "Disabled", "it answered 410: it wants nothing more"
    )  # fmt: skip
    assert (
        webhook_tries.settled(webhook_tries.begun(delivery(), NOW), Answer(410), NOW).state
        == "failed"
    )
    notice = webhooks.notice_of(after, NOW)
    assert (notice.type, notice.webhook_id) == ("webhook.disabled", "wh-1")
    assert "example.com" in notice.message


def test_a_receiver_that_took_nothing_for_a_day_is_disabled() -> None:
    failing = webhook_health.heard(webhook(), Answer(500), NOW)
    assert failing.failing_since == NOW
    still = webhook_health.heard(failing, Answer(500), NOW + timedelta(hours=23))
    assert still.status == "Active"
    over = webhook_health.heard(still, Answer(None, "no answer"), NOW + timedelta(hours=25))
    assert (over.status, over.failing_since) == ("Disabled", NOW)
    assert webhook_health.heard(still, Answer(204), NOW).failing_since is None
    assert webhook_health.enabled(over).status == "Active"
    assert webhook_health.enabled(over).failing_since is None


def test_an_answer_that_redirects_is_a_failure_that_says_so() -> None:
    assert Answer(302).outcome == "failed"
    assert Answer(302).why == "the receiver answered 302; redirects are not followed"
