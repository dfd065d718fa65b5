"""A webhook, an event and a delivery, as the tests of webhooks need them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from trainyard.domain import webhooks
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard_contracts.user_events import ToldRun, UserEvent
from trainyard_contracts.webhooks import WebhookSpec

#: The verifier takes the time of its own clock, to five minutes.
NOW = datetime.now(timezone.utc)


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
