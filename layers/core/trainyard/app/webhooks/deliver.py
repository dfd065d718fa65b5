"""Sends one delivery: a try is written down before it is made, so that no two make the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from trainyard.app.webhooks.manage import keys_of
from trainyard.domain import webhook_health, webhook_signing, webhook_tries, webhooks
from trainyard.domain.errors import ConflictError, DeliveryNotFound, WebhookNotFound
from trainyard.domain.webhook_answers import Answer
from trainyard.domain.webhook_records import Delivery, Keys, Webhook
from trainyard.ports import Ports
from trainyard_contracts.user_events import UserEvent

#: The second try comes so soon that this process makes it, too, if the first took no longer.
WAITED_FOR_SECONDS = 10.0
_TRIES = 8


@dataclass(frozen=True)
class Delivered:
    """What became of it, for the log: without the URL, which may hold what nobody should read."""

    result: str
    reason: str
    webhook: str
    delivery: str


def enqueue(ports: Ports, event: UserEvent, active: list[Webhook]) -> None:
    """A delivery for each webhook that wants the event; again adds none."""
    for webhook in active:
        if webhooks.wants(webhook, event):
            ports.webhooks.add(webhooks.delivery_of(webhook, event, ports.clock.now()))


def deliver(
    ports: Ports,
    webhook_id: str,
    delivery_id: str,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> Delivered:
    """Make the try that is due, and the one that follows soon after it."""
    result, reason = "dropped", "there is no such webhook or delivery"
    try:
        while True:
            result, reason, again = _tried(ports, webhook_id, delivery_id)
            if again is None:
                break
            pause(again)
    except (WebhookNotFound, DeliveryNotFound):
        pass
    return Delivered(result, reason, webhook_id, delivery_id)


def _tried(ports: Ports, webhook_id: str, delivery_id: str) -> tuple[str, str, float | None]:
    """What came of it, why, and after how many seconds it is to be tried again here."""
    now = ports.clock.now()
    webhook = ports.webhooks.get(webhook_id)
    delivery = ports.webhooks.delivery(webhook_id, delivery_id)
    if webhook.status != "Active":
        return "dropped", f"the webhook is {webhook.status}", None
    if not delivery.due_at(now) or webhook.held(now):
        return "dropped", "it is not due", None
    over = webhook_tries.exhausted(delivery)
    keys = None if over else keys_of(ports, webhook.id)  # before a try counts: it may be away
    try:
        begun = webhook_tries.given_up(delivery) if over else webhook_tries.begun(delivery, now)
        delivery = ports.webhooks.put_delivery(begun)
    except ConflictError:
        return "dropped", "another has it in hand", None
    if over:
        return "failed", "the process of its last try died", None
    return _made(ports, webhook, delivery, keys)


def _made(
    ports: Ports, webhook: Webhook, delivery: Delivery, keys: Keys | None
) -> tuple[str, str, float | None]:
    """The try that was written down, as `_tried` answers."""
    answer = _posted(ports, webhook, delivery, keys)
    over = ports.clock.now()
    after = webhook_tries.settled(delivery, answer, over)
    try:
        ports.webhooks.put_delivery(after)
    except ConflictError:  # a person asked for it once more, or it took too long
        return answer.outcome, answer.why or "as asked", None
    _heard(ports, webhook, answer, over)
    held = (over - delivery.tries[-1].at).total_seconds()
    wait = (after.due - over).total_seconds() if after.due is not None else None
    soon = wait is not None and max(wait, held) <= WAITED_FOR_SECONDS
    again = wait if soon else None
    return answer.outcome, answer.why or "as asked", again


def _posted(ports: Ports, webhook: Webhook, delivery: Delivery, keys: Keys | None) -> Answer:
    if keys is None:
        return Answer(None, "nothing was sent: its secret cannot be read; rotate it")
    body = webhook_signing.body_of(delivery.event)
    headers = webhook_signing.headers_of(delivery, body, keys, delivery.tries[-1].at)
    return ports.receivers.post(webhook.spec.url, headers, body)


def _heard(ports: Ports, webhook: Webhook, answer: Answer, now: datetime) -> None:
    """Its record after an answer. People hear of one that is disabled in the same write."""
    for _ in range(_TRIES):
        if webhook.status != "Active":
            return
        after = webhook_health.heard(webhook, answer, now)
        if after == webhook:
            return
        notice = webhooks.notice_of(after, now) if after.status == "Disabled" else None
        try:
            ports.webhooks.put(after, notice)
            return
        except ConflictError:
            webhook = ports.webhooks.get(webhook.id)
