"""What the table stores of webhooks: whom to send to, and what became of each delivery."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.records import Record
from trainyard_contracts.people import Person
from trainyard_contracts.user_events import UserEvent
from trainyard_contracts.webhooks import WebhookSpec

WebhookStatus = Literal["Active", "Disabled", "Deleted"]
DeliveryState = Literal["waiting", "delivered", "failed"]
#: The newest so many tries of a delivery are kept.
MOST_TRIES = 20


class Webhook(Record):
    """A receiver. Its secrets are in Secrets Manager alone."""

    id: str
    spec: WebhookSpec
    status: WebhookStatus = "Active"
    version: int = 0
    created_at: datetime
    created_by: Person | None = None
    updated_at: datetime
    body_hash: str = ""
    failing_since: datetime | None = Field(
        default=None, description="when a try failed first since the last that succeeded"
    )
    failed_at: datetime | None = Field(
        default=None, description="when a try failed last; those that fail are tried in turn"
    )
    held_until: datetime | None = Field(
        default=None, description="the receiver asked for nothing before"
    )
    disabled_because: str = ""
    rotated_at: datetime | None = None

    @property
    def name(self) -> str:
        """As lists know it."""
        return self.id

    def held(self, now: datetime) -> bool:
        return self.held_until is not None and now < self.held_until


class Try(Record):
    """One request to the receiver."""

    at: datetime
    status: int | None = Field(default=None, description="of HTTP; null: there was no answer")
    said: str = Field(
        default="", description="why it failed; '' of one that succeeded, or is not over yet"
    )


class Delivery(Record):
    """One event for one receiver. A try is written before it is made."""

    id: str = Field(description="the same for all tries: webhook-id")
    webhook_id: str
    event: UserEvent
    state: DeliveryState = "waiting"
    due: datetime | None = Field(default=None, description="when it is tried next")
    attempt: int = Field(default=0, description="tries since it was asked for")
    tries: list[Try] = Field(default_factory=list)
    version: int = 0
    created_at: datetime
    updated_at: datetime

    def due_at(self, now: datetime) -> bool:
        return self.state == "waiting" and self.due is not None and self.due <= now


class Key(Record):
    """A secret of a receiver; a rotated one signs for a while beside the new one."""

    secret: str
    until: datetime | None = Field(default=None, description="null: of the newest")


class Keys(Record):
    """What Secrets Manager holds for a webhook, newest first."""

    keys: list[Key]
