"""How events are sent by Standard Webhooks 1.0: signed, tried again, held back and given up."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from urllib.parse import urlsplit

from trainyard.domain.notices import Notice
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard_contracts.user_events import UserEvent


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
