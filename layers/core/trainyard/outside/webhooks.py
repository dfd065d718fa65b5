"""The webhooks in the table, and those who listen."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from trainyard.domain.notices import Notice
from trainyard.domain.webhook_answers import Answer
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard.outside.pages import Page


class Webhooks(Protocol):
    """Webhooks and their deliveries; no secret is among them."""

    def create(self, webhook: Webhook) -> Webhook:
        """Store it, or answer with the one that is there by its id."""
        ...

    def get(self, webhook_id: str) -> Webhook:
        """Raises errors.WebhookNotFound, errors.RecordUnreadable."""
        ...

    def put(self, webhook: Webhook, notice: Notice | None = None) -> Webhook:
        """As Runs.put; people hear of the notice if it is written."""
        ...

    def list(self, *, limit: int, token: str | None) -> Page[Webhook]:
        """As Runs.list, without those that are Deleted."""
        ...

    def active(self) -> builtins.list[Webhook]:
        """Every one that is sent to and that this version can read."""
        ...

    def add(self, delivery: Delivery) -> bool:
        """Store it; False if it was there already."""
        ...

    def delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Raises errors.DeliveryNotFound, errors.RecordUnreadable."""
        ...

    def put_delivery(self, delivery: Delivery) -> Delivery:
        """As Runs.put."""
        ...

    def deliveries(self, webhook_id: str, *, at_most: int) -> builtins.list[Delivery]:
        """Newest event first."""
        ...

    def due(self, webhook_id: str, now: datetime, *, at_most: int) -> builtins.list[Delivery]:
        """Those that wait for a try; one that was written just now may be missing."""
        ...

    def dispatch(self, delivery: Delivery) -> None:
        """Have it tried by a process of its own. Raises errors.RetryableError."""
        ...


class Receivers(Protocol):
    """Addresses of people's own, which are sent to and not trusted."""

    @property
    def loopback(self) -> bool:
        """Whether those on this machine may be reached; on the local cloud only."""
        ...

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request. Never raises for what a receiver or its name does."""
        ...
