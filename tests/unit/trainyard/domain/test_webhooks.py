"""Webhooks by the specification: signatures, the schedule of tries, and receivers in trouble."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from trainyard.domain import webhook_health, webhook_signing, webhook_tries, webhook_urls, webhooks
from trainyard.domain.webhook_records import Delivery, Key, Keys, Webhook
from trainyard.domain.webhooks import Answer
from trainyard_contracts.user_events import ToldRun, UserEvent
from trainyard_contracts.webhooks import WebhookSpec

#: The verifier takes the time of its own clock, to five minutes.
NOW = datetime.now(timezone.utc)
ONE, TWO = (webhook_signing.secret_of(bytes([number]) * 32) for number in (1, 2))


def event(**fields: Any) -> UserEvent:
    run = ToldRun(id="run-1", name="größer", labels={"team": "vision"})
    given = {"id": "run-1/end", "at": NOW, "type": "run.failed", "message": "no", "run": run}
    return UserEvent(**{**given, **fields})


def webhook(**fields: Any) -> Webhook:
    spec = WebhookSpec(url="https://example.com/x", **fields)
    made = NOW - timedelta(hours=1)
    return Webhook(id="wh-1", spec=spec, created_at=made, updated_at=made)


def delivery() -> Delivery:
    return webhooks.delivery_of(webhook(), event(), NOW)


def signed(keys: Keys) -> tuple[bytes, dict[str, str]]:
    """By the clock of this moment, by which the library judges."""
    now = datetime.now(timezone.utc)
    body = webhook_signing.body_of(event())
    return body, webhook_signing.headers_of(delivery(), body, keys, now)


def test_the_specifications_own_library_verifies_ours() -> None:
    body, headers = signed(Keys(keys=[Key(secret=ONE)]))
    sent = Verifier(ONE).verify(body, headers)
    assert sent == json.loads(body)
    assert (sent["type"], sent["data"]["run"]["name"]) == ("run.failed", "größer")
    assert sent["timestamp"].endswith("Z")
    assert "type" not in sent["data"]
    with pytest.raises(WebhookVerificationError):
        Verifier(TWO).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Verifier(ONE).verify(body + b" ", headers)


def test_two_secrets_sign_while_both_are_valid() -> None:
    now = datetime.now(timezone.utc)
    keys = webhook_signing.rotated(Keys(keys=[Key(secret=ONE)]), TWO, now - timedelta(hours=23))
    body, headers = signed(keys)
    assert headers["webhook-signature"].count("v1,") == 2
    for secret in (ONE, TWO):
        Verifier(secret).verify(body, headers)
    later = now + timedelta(hours=2)
    assert [key.secret for key in webhook_signing.valid(keys, later).keys] == [TWO]


def test_a_secret_that_is_rotated_many_times_leaves_few_behind() -> None:
    keys = Keys(keys=[])
    for number in range(6):
        keys = webhook_signing.rotated(keys, webhook_signing.secret_of(bytes([number]) * 32), NOW)
    assert len(keys.keys) == webhook_signing.MOST_KEYS
    assert keys.keys[0].until is None
    assert all(key.until == NOW + webhook_signing.BOTH_VALID for key in keys.keys[1:])


def test_a_secret_has_the_form_and_the_length_of_the_specification() -> None:
    assert ONE.startswith("whsec_")
    assert base64.b64decode(ONE[6:]) == b"\1" * 32
    with pytest.raises(ValueError, match="24 to 64"):
        webhook_signing.secret_of(b"short")
    assert webhook_signing.readable_keys([Key(secret=ONE)])
    assert not webhook_signing.readable_keys([])
    assert not webhook_signing.readable_keys([Key(secret="whsec_?")])


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


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, True),
        ({"types": ["run.failed", "cluster.failed"]}, True),
        ({"types": ["run.finished"]}, False),
        ({"labels": {"team": "vision"}}, True),
        ({"labels": {"team": "vision", "tier": "1"}}, False),
    ],
)
def test_a_webhook_is_sent_what_it_asked_for(spec: dict[str, Any], wanted: bool) -> None:
    assert webhooks.wants(webhook(**spec), event()) == wanted


def test_a_webhook_is_sent_nothing_from_before_it_was_made() -> None:
    assert not webhooks.wants(webhook(), event(at=NOW - timedelta(hours=2)))
    assert not webhooks.wants(webhook().changed(status="Disabled"), event())
    assert not webhooks.wants(webhook(labels={"team": "vision"}), event(run=None))


def test_each_copy_of_an_event_is_one_delivery() -> None:
    first = webhooks.delivery_of(webhook(), event(), NOW)
    assert webhooks.delivery_of(webhook(), event(), NOW + timedelta(hours=1)).id == first.id
    other = webhook().changed(id="wh-2")
    assert webhooks.delivery_of(other, event(), NOW).id != first.id
    assert "." not in first.id  # it parts what is signed


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/", "https"),
        ("ftp://example.com/", "https"),
        ("example.com", "no host"),
        ("https://", "no host"),
        ("https://example.com:99999/", "no URL"),
        ("https://example.com:0/", "no host"),
        ("https://[::1/", "no URL"),
        ("https://user:word@example.com/", "user"),
        ("https://example.com/#part", "after #"),
        ("https://exa mple.com/", "characters"),
        ("https://example.com/\r\nx: y", "characters"),
        ("https://bücher.example/", "characters"),
        ("https://example.com\\@10.0.0.1/", "user"),
        ("https://a.example\\b/", "no host"),
        ("https://localhost/", "internet"),
        ("https://intranet/", "internet"),
        ("https://printer.local/", "internet"),
        ("https://metadata.google.internal/", "internet"),
        ("https://127.1/", "internet"),
        ("https://2130706433/", "internet"),
        ("https://127.0.0.0x1/", "internet"),
        ("https://0x7f.0.0.0X1/", "internet"),
        ("https://127.0.0.0x1./", "internet"),
        ("https://127.0.0.1/", "loopback"),
        ("https://169.254.169.254/latest/meta-data", "metadata"),
        ("https://[::ffff:10.0.0.1]/", "private"),
        ("https://[fd00:ec2::254]/", "internet"),
    ],
)
def test_a_url_that_is_refused_says_why(url: str, why: str) -> None:
    assert why in webhook_urls.refusal_of(url, loopback=False)


def test_a_receiver_of_this_machine_is_for_the_local_cloud_alone() -> None:
    for url in ("http://127.0.0.1:8000/x", "http://localhost:8000", "https://[::1]:8443/"):
        assert webhook_urls.refusal_of(url, loopback=False)
        assert not webhook_urls.refusal_of(url, loopback=True)
    for url in ("http://example.com/", "https://10.0.0.1/", "ftp://127.0.0.1/"):
        assert webhook_urls.refusal_of(url, loopback=True)


def test_a_public_receiver_may_have_a_port_a_path_and_a_query() -> None:
    for url in ("https://example.com", "https://a-b.example.com:8443/x?y=z", "https://8.8.8.8/"):
        assert not webhook_urls.refusal_of(url, loopback=False)
