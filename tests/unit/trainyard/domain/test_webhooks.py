"""Which events a webhook is sent, and as what."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.sent_webhooks import NOW, event, webhook

from trainyard.domain import webhooks


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
