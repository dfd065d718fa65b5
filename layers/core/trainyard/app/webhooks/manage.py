"""Webhooks as people ask for them: added, rotated, sent again and removed.

A secret is in Secrets Manager, and in the one answer to the person who asked for it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from trainyard.domain import webhook_health, webhook_signing, webhook_tries, webhook_urls
from trainyard.domain.errors import (
    ConflictError,
    FieldError,
    IdempotencyConflict,
    InvalidRequest,
    TooManyWebhooks,
    WebhookNotFound,
)
from trainyard.domain.webhook_records import Delivery, Key, Keys, Webhook
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.base import read_stored
from trainyard_contracts.people import Person
from trainyard_contracts.webhooks import WebhookSpec

#: Each costs the sweep a query a minute.
MOST_WEBHOOKS = 50
#: Deliveries write the same record.
_TRIES = 8


def add_webhook(
    ports: Ports, spec: WebhookSpec, *, idempotency_key: str | None, by: Person | None = None
) -> tuple[Webhook, str | None]:
    """With its secret, or without where the same key was used before. Raises InvalidRequest."""
    if refused := webhook_urls.refusal_of(spec.url, loopback=ports.receivers.loopback):
        raise InvalidRequest(f"url: {refused}", errors=[FieldError("url", refused)])
    asked = hashlib.sha256(spec.model_dump_json(by_alias=True).encode()).hexdigest()
    now, id_ = ports.clock.now(), _id(ports, idempotency_key)
    try:
        return _known(ports.webhooks.get(id_), asked), None
    except WebhookNotFound:
        pass
    # Those that are Disabled count: a redelivery brings each back.
    if len(ports.webhooks.list(limit=MOST_WEBHOOKS, token=None).items) >= MOST_WEBHOOKS:
        raise TooManyWebhooks.of(MOST_WEBHOOKS)
    made = Webhook(
        id=id_, spec=spec, created_at=now, created_by=by, updated_at=now, body_hash=asked
    )
    stored = ports.webhooks.create(made)
    if stored != made:
        return _known(stored, asked), None
    secret = webhook_signing.secret_of(ports.ids.random(32))
    if not _kept(ports, id_, Keys(keys=[Key(secret=secret)])):
        raise ConflictError(f"webhook {id_} was removed while it was added; add it again")
    return made, secret


def _known(webhook: Webhook, asked: str) -> Webhook:
    if webhook.body_hash != asked:
        raise IdempotencyConflict("this Idempotency-Key was used for another webhook")
    return webhook


def _id(ports: Ports, key: str | None) -> str:
    if key is None:
        return f"wh-{ports.ids.ulid().lower()}"
    digest = base64.b32hexencode(hashlib.sha256(f"webhook/{key}".encode()).digest())
    return f"wh-{digest.decode()[:26].lower()}"


def shown_webhook(ports: Ports, webhook_id: str) -> Webhook:
    """Raises WebhookNotFound, also for one that is removed."""
    return _here(ports.webhooks.get(webhook_id))


def _here(webhook: Webhook) -> Webhook:
    if webhook.status == "Deleted":
        raise WebhookNotFound.of(webhook.id)
    return webhook


def remove_webhook(ports: Ports, webhook_id: str) -> Webhook:
    """Nothing more is sent. Twice is the same as once, and removes a secret that was left."""
    removed = _changed(ports, webhook_id, lambda webhook: webhook.changed(status="Deleted"))
    ports.secrets.delete(secret_name(ports, webhook_id))
    return removed


def rotate_webhook(ports: Ports, webhook_id: str) -> tuple[Webhook, str]:
    """A new secret; the one before it signs for a day more."""
    now = ports.clock.now()
    rotated = _changed(ports, webhook_id, lambda webhook: _here(webhook).changed(rotated_at=now))
    secret = webhook_signing.secret_of(ports.ids.random(32))
    before = keys_of(ports, webhook_id) or Keys(keys=[])
    if not _kept(ports, webhook_id, webhook_signing.rotated(before, secret, now)):
        raise WebhookNotFound.of(webhook_id)
    return rotated, secret


def redeliver(ports: Ports, webhook_id: str, delivery_id: str) -> Delivery:
    """Send it once more, whatever became of it. A webhook that was disabled is active again."""
    shown_webhook(ports, webhook_id)
    delivery = ports.webhooks.delivery(webhook_id, delivery_id)
    _changed(ports, webhook_id, lambda webhook: webhook_health.enabled(_here(webhook)))
    return ports.webhooks.put_delivery(webhook_tries.asked_again(delivery, ports.clock.now()))


def keys_of(ports: Ports, webhook_id: str) -> Keys | None:
    """None where nothing can sign: there is no secret, or a person wrote over it."""
    text = ports.secrets.read(secret_name(ports, webhook_id), fresh=True)
    if text is None:
        return None
    try:
        keys = read_stored(Keys, text)
    except ValueError:
        return None
    return keys if webhook_signing.readable_keys(keys.keys) else None


def _kept(ports: Ports, webhook_id: str, keys: Keys) -> bool:
    """False, and no secret is left, where the webhook was removed meanwhile."""
    name = secret_name(ports, webhook_id)
    ports.secrets.write(name, keys.model_dump_json(by_alias=True))
    if ports.webhooks.get(webhook_id).status != "Deleted":
        return True
    ports.secrets.delete(name)
    return False


def secret_name(ports: Ports, webhook_id: str) -> str:
    return places.webhook_secret(ports.config.secret_prefix, webhook_id)


def _changed(ports: Ports, webhook_id: str, change: Callable[[Webhook], Webhook]) -> Webhook:
    for _ in range(_TRIES):
        before = ports.webhooks.get(webhook_id)
        after = change(before)
        if after == before:
            return before
        try:
            return ports.webhooks.put(after)
        except ConflictError:
            continue
    raise ConflictError(f"webhook {webhook_id} is written all the time")
