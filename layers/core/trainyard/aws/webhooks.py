"""Webhooks and their deliveries in the table (layout: `table.py`); the bus calls their sender."""

from __future__ import annotations

import builtins
import json
from datetime import datetime, timedelta
from typing import Any

from trainyard.aws import listing, notices
from trainyard.aws.items import Item, number, pack, readable, record_of, stamp, text
from trainyard.aws.refusals import translated
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.listing import Wanted
from trainyard.domain.notices import Notice
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page

_HERE, _DELETED = "webhooks#here", "webhooks#deleted"
_SORT_KEY = "webhook"
_DELIVERY = "delivery#"
#: What is over is kept so long.
_KEPT = timedelta(days=30)
#: On the bus, for the function that sends; functions/webhook has a rule for it.
SOURCE = "trainyard.webhooks"


class TableWebhooks:
    """The port `Webhooks` on DynamoDB and EventBridge."""

    def __init__(self, table: Table, clock: Clock, events: Any, bus: str) -> None:
        self._table, self._clock = table, clock
        self._events, self._bus = events, bus

    def create(self, webhook: Webhook) -> Webhook:
        written = self._table.put(_item(webhook), condition="attribute_not_exists(pk)")
        return webhook if written else self.get(webhook.id)

    def get(self, webhook_id: str) -> Webhook:
        item = self._table.get(_pk(webhook_id), _SORT_KEY)
        if item is None:
            raise errors.WebhookNotFound.of(webhook_id)
        return _read(item)

    def put(self, webhook: Webhook, notice: Notice | None = None) -> Webhook:
        after = webhook.changed(version=webhook.version + 1, updated_at=self._clock.now())
        values = {":before": number(webhook.version)}
        writes = [self._table.only_if(_item(after), condition="version = :before", values=values)]
        if notice is not None:
            key = {"pk": text(_pk(webhook.id)), "sk": text(f"notice#{notice.id}")}
            writes.append(self._table.always({**key, **notices.attributes(notice)}))
        if self._table.transact(*writes):
            raise errors.ConflictError(
                f"webhook {webhook.id} was changed by someone else since version {webhook.version}"
            )
        return after

    def list(self, *, limit: int, token: str | None) -> Page[Webhook]:
        wanted = Wanted(statuses=frozenset({"Active", "Disabled"}))
        return listing.search(self._table, [_HERE], _read, wanted, limit=limit, token=token)

    def active(self) -> builtins.list[Webhook]:
        found = readable(_read, self._table.listed(_HERE))
        return [webhook for _, webhook in found if webhook.status == "Active"]

    def add(self, delivery: Delivery) -> bool:
        return self._table.put(_delivery_item(delivery), condition="attribute_not_exists(pk)")

    def delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        item = self._table.get(_pk(webhook_id), f"{_DELIVERY}{delivery_id}")
        if item is None:
            raise errors.DeliveryNotFound.of(delivery_id)
        return record_of(Delivery, item)

    def put_delivery(self, delivery: Delivery) -> Delivery:
        after = delivery.changed(version=delivery.version + 1, updated_at=self._clock.now())
        values = {":before": number(delivery.version)}
        if not self._table.put(_delivery_item(after), condition="version = :before", values=values):
            raise errors.ConflictError(
                f"delivery {delivery.id} was changed since version {delivery.version}"
            )
        return after

    def deliveries(self, webhook_id: str, *, at_most: int) -> builtins.list[Delivery]:
        found = self._table.query(_pk(webhook_id), _DELIVERY, newest_first=True, limit=at_most)
        read = readable(lambda item: record_of(Delivery, item), [("", item) for item in found])
        return [delivery for _, delivery in read]

    def due(self, webhook_id: str, now: datetime, *, at_most: int) -> builtins.list[Delivery]:
        found = self._table.indexed(_due(webhook_id), at_most=at_most)
        read = readable(lambda item: record_of(Delivery, item), [("", item) for item in found])
        return [delivery for _, delivery in read if delivery.due_at(now)]

    def dispatch(self, delivery: Delivery) -> None:
        entry = {
            "EventBusName": self._bus,
            "Source": SOURCE,
            "DetailType": "delivery.due",
            "Detail": json.dumps({"webhook": delivery.webhook_id, "delivery": delivery.id}),
        }
        with translated("put an event on the bus"):
            answer = self._events.put_events(Entries=[entry])
        if answer["FailedEntryCount"]:
            refused = answer["Entries"][0]
            raise errors.RetryableError(
                f"the bus did not take delivery {delivery.id}: {refused.get('ErrorCode')}"
            )


def _read(item: Item) -> Webhook:
    return record_of(Webhook, item)


def _pk(webhook_id: str) -> str:
    return f"webhook#{webhook_id}"


def _due(webhook_id: str) -> str:
    return f"deliveries#{webhook_id}"


def _item(webhook: Webhook) -> Item:
    deleted = webhook.status == "Deleted"
    return {
        "pk": text(_pk(webhook.id)),
        "sk": text(_SORT_KEY),
        "doc": pack(webhook),
        "version": number(webhook.version),
        "gsi1pk": text(_DELETED if deleted else _HERE),
        "gsi1sk": text(f"{stamp(webhook.created_at)}#{webhook.id}"),
        **(_expires(webhook.updated_at) if deleted else {}),
        **listing.attributes(
            name=webhook.id, status=webhook.status, cluster="", created_by=webhook.created_by
        ),
    }


def _delivery_item(delivery: Delivery) -> Item:
    waiting = (
        {
            "gsi1pk": text(_due(delivery.webhook_id)),
            "gsi1sk": text(f"{stamp(delivery.due)}#{delivery.id}"),
        }
        if delivery.due is not None
        else {}
    )
    return {
        "pk": text(_pk(delivery.webhook_id)),
        "sk": text(f"{_DELIVERY}{delivery.id}"),
        "doc": pack(delivery),
        "version": number(delivery.version),
        **waiting,
        **_expires(delivery.created_at),
    }


def _expires(since: datetime) -> Item:
    return {"expiresAt": number(int((since + _KEPT).timestamp()))}
