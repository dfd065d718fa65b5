"""What people ask of webhooks."""

from __future__ import annotations

from trainyard.app.people.audited import Audited
from trainyard.app.webhooks.manage import add_webhook, redeliver, remove_webhook, rotate_webhook
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard_contracts.webhooks import WebhookSpec


class OfWebhooks(Audited):
    """Add, rotate, send again and remove."""

    def add_webhook(
        self, spec: WebhookSpec, *, idempotency_key: str | None
    ) -> tuple[Webhook, str | None]:
        return self._made(
            "webhook.add",
            "webhook/",
            lambda: add_webhook(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda made: f"webhook/{made[0].id}",
        )

    def rotate_webhook(self, webhook_id: str, *, reason: str = "") -> tuple[Webhook, str]:
        return self._changed(
            "webhook.rotate",
            self._ports.webhooks.get(webhook_id),
            lambda: rotate_webhook(self._ports, webhook_id),
            reason,
        )

    def redeliver(self, webhook_id: str, delivery_id: str, *, reason: str = "") -> Delivery:
        return self._changed(
            "webhook.redeliver",
            self._ports.webhooks.get(webhook_id),
            lambda: redeliver(self._ports, webhook_id, delivery_id),
            reason,
        )

    def remove_webhook(self, webhook_id: str, *, reason: str = "") -> Webhook:
        return self._changed(
            "webhook.remove",
            self._ports.webhooks.get(webhook_id),
            lambda: remove_webhook(self._ports, webhook_id),
            reason,
        )
