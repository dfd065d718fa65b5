"""What is sent to a webhook, by the specification: verified by its own library."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta, timezone

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError
from tests.support.sent_webhooks import NOW, delivery, event

from trainyard.domain import webhook_signing
from trainyard.domain.webhook_records import Key, Keys

ONE, TWO = (webhook_signing.secret_of(bytes([number]) * 32) for number in (1, 2))


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
