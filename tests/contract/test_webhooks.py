"""Webhooks and deliveries in the table: made once, written under their version, found when due."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

import boto3
import pytest
from standardwebhooks.webhooks import WebhookVerificationError
from tests.support.memory import MemoryClock, MemoryNotices, MemoryWebhooks
from tests.support.repository import ROOT
from tests.support.store_table import new_table

from trainyard.aws.notices import TableNotices
from trainyard.aws.secrets import SecretKeys
from trainyard.aws.webhooks import SOURCE, TableWebhooks
from trainyard.domain import webhook_health, webhook_signing, webhook_tries
from trainyard.domain import webhooks as pure
from trainyard.domain.errors import ConflictError, DeliveryNotFound, WebhookNotFound
from trainyard.domain.webhook_answers import Answer
from trainyard.domain.webhook_records import Delivery, Key, Keys, Webhook
from trainyard_contracts.user_events import UserEvent
from trainyard_contracts.webhooks import WebhookSpec

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=timezone.utc)


class Bus:
    """EventBridge, as far as it is asked here."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        self.entries += Entries
        return {"FailedEntryCount": 0, "Entries": [{}]}


def webhook(number: int = 1) -> Webhook:
    made = NOW + timedelta(minutes=number)
    spec = WebhookSpec(url=f"https://example.com/{number}")
    return Webhook(id=f"wh-{number:026}", spec=spec, created_at=made, updated_at=made)


def delivery(of: Webhook, number: int = 1) -> Delivery:
    at = NOW + timedelta(hours=number)
    event = UserEvent(id=f"run-1/{number}", at=at, type="run.failed", message="no")
    return pure.delivery_of(of, event, at)


@pytest.fixture(params=["memory", "table"])
def stores(request: pytest.FixtureRequest, dynamodb: Any) -> tuple[Any, Any]:
    """Webhooks, and the notices that they write."""
    clock = MemoryClock(NOW)
    if request.param == "memory":
        found = MemoryWebhooks(clock)
        no_runs: Any = type("NoRuns", (), {"notices": {}})
        return found, MemoryNotices(no_runs, no_runs, found.notices)
    table = new_table(dynamodb)
    return TableWebhooks(table, clock, Bus(), "bus"), TableNotices(table, None, "bus")


def test_one_is_made_once_and_written_under_its_version(stores: tuple[Any, Any]) -> None:
    found, _ = stores
    made = found.create(webhook())
    after = found.put(made.changed(failing_since=NOW))
    assert found.create(webhook()) == after
    with pytest.raises(ConflictError):
        found.put(made.changed(status="Disabled"))
    assert found.get(made.id) == after
    with pytest.raises(WebhookNotFound):
        found.get(webhook(9).id)


def test_they_are_listed_newest_first_without_the_removed(stores: tuple[Any, Any]) -> None:
    found, _ = stores
    first, second, third = (found.create(webhook(number)) for number in (1, 2, 3))
    found.put(second.changed(status="Deleted"))
    found.put(third.changed(status="Disabled"))
    page = found.list(limit=5, token=None)
    assert [one.id for one in page.items] == [third.id, first.id]
    assert [one.id for one in found.active()] == [first.id]
    begun = found.list(limit=1, token=None)
    rest = found.list(limit=1, token=begun.next_token)
    assert [one.id for one in (*begun.items, *rest.items)] == [third.id, first.id]


def test_a_delivery_is_added_once_and_found_while_it_is_due(stores: tuple[Any, Any]) -> None:
    found, _ = stores
    hook = found.create(webhook())
    first, second = delivery(hook, 1), delivery(hook, 2)
    assert found.add(first)
    assert not found.add(first)
    assert found.add(second)
    assert found.due(hook.id, NOW, at_most=5) == []
    late = NOW + timedelta(hours=3)
    assert [one.id for one in found.due(hook.id, late, at_most=5)] == [first.id, second.id]
    assert [one.id for one in found.due(hook.id, late, at_most=1)] == [first.id]
    assert [one.id for one in found.deliveries(hook.id, at_most=5)] == [second.id, first.id]

    begun = found.put_delivery(webhook_tries.begun(found.delivery(hook.id, first.id), late))
    with pytest.raises(ConflictError):
        found.put_delivery(webhook_tries.begun(first, late))
    assert [one.id for one in found.due(hook.id, late, at_most=5)] == [second.id]
    found.put_delivery(webhook_tries.settled(begun, Answer(200), late))
    assert found.delivery(hook.id, first.id).state == "delivered"
    assert [one.id for one in found.due(hook.id, late, at_most=5)] == [second.id]
    with pytest.raises(DeliveryNotFound):
        found.delivery(hook.id, "msg-none")


def test_people_hear_of_one_that_is_disabled_with_the_write_that_does_it(
    stores: tuple[Any, Any],
) -> None:
    found, notices = stores
    made = found.create(webhook())
    disabled = webhook_health.heard(made, Answer(410), NOW)
    found.put(disabled, pure.notice_of(disabled, NOW))
    with pytest.raises(ConflictError):
        found.put(disabled, pure.notice_of(disabled.changed(failing_since=None), NOW))
    (unsent,) = notices.unsent(10)
    assert (unsent.notice.type, unsent.notice.webhook_id) == ("webhook.disabled", made.id)
    notices.sent(unsent)
    assert notices.unsent(10) == []
    assert found.get(made.id).status == "Disabled"


def test_a_delivery_goes_to_its_sender_by_the_bus_without_what_it_says(dynamodb: Any) -> None:
    bus = Bus()
    found = TableWebhooks(new_table(dynamodb), MemoryClock(NOW), bus, "the-bus")
    hook = webhook()
    found.dispatch(delivery(hook))
    (entry,) = bus.entries
    assert (entry["Source"], entry["EventBusName"]) == (SOURCE, "the-bus")
    assert json.loads(entry["Detail"]) == {"webhook": hook.id, "delivery": delivery(hook).id}


def test_no_secret_is_in_the_table(dynamodb: Any) -> None:
    """The record has no field for one."""
    assert not [
        name for name in (*Webhook.model_fields, *Delivery.model_fields) if "secret" in name
    ]


def test_a_secret_is_written_and_written_over(dynamodb: Any) -> None:
    keys = SecretKeys(boto3.client("secretsmanager", region_name="us-east-1"), "test")
    name = "trainyard-webhooks/test/wh-1"
    assert keys.read(name, fresh=True) is None
    keys.write(name, "one")
    assert keys.read(name, fresh=True) == "one"
    keys.write(name, "two")
    assert keys.read(name, fresh=True) == "two"
    keys.delete(name)
    keys.delete(name)


def test_a_receiver_verifies_as_the_page_says() -> None:
    page = (ROOT / "docs/use/notify.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    now = datetime.now(timezone.utc)  # what the library compares with
    event = UserEvent(id="run-1/end", at=now, type="run.failed", message="no")
    secret, body = webhook_signing.secret_of(b"s" * 32), webhook_signing.body_of(event)
    message = pure.delivery_of(webhook(), event, now)
    headers = webhook_signing.headers_of(message, body, Keys(keys=[Key(secret=secret)]), now)
    found: dict[str, Any] = {"secret": secret, "body": body, "headers": headers}
    exec(code, found)  # the page's own lines
    assert found["sent"]["type"] == "run.failed"
    with pytest.raises(WebhookVerificationError):
        exec(code, {**found, "body": body + b" "})
