"""What the API answers of webhooks, field by field, in camelCase."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from trainyard.domain import webhook_records as records
from trainyard.http.delivery_views import DeliveryView
from trainyard.http.views import View
from trainyard_contracts.people import Person
from trainyard_contracts.user_events import UserEventType


class WebhookSummary(View):
    """A receiver, without its secret."""

    id: str
    url: str = Field(description="where events are sent")
    types: list[UserEventType] = Field(description="only events of these types; empty: all")
    labels: dict[str, str] = Field(description="only events of runs that carry all of these")
    description: str = Field(description="for people: whose receiver it is, and what it does")
    status: Literal["Active", "Disabled", "Deleted"] = Field(
        description="Disabled: nothing is sent until a delivery is sent again"
    )
    disabled_because: str = Field(description="'' if it is not disabled")
    failing_since: datetime | None = Field(
        description="the first try that failed since the last that succeeded; null: none"
    )
    held_until: datetime | None = Field(description="the receiver asked for nothing before")
    rotated_at: datetime | None = Field(description="when its secret was made anew; null: never")
    created_at: datetime
    created_by: Person | None = Field(description="whose it is")
    updated_at: datetime

    @classmethod
    def of_webhook(cls, webhook: records.Webhook, **other: object) -> Self:
        spec = webhook.spec
        known = {
            "url": spec.url,
            "types": spec.types,
            "labels": spec.labels,
            "description": spec.description,
        }
        return cls.of(webhook, **{**known, **other})


class WebhookWithSecret(WebhookSummary):
    """A receiver, with a secret that no other answer has."""

    secret: str | None = Field(
        description="whsec_...; null where this Idempotency-Key was used before: rotate it",
        examples=["whsec_..."],
    )


class WebhookView(WebhookSummary):
    """A receiver, with what became of the newest deliveries."""

    deliveries: list[DeliveryView] = Field(description="of the newest events, 20 at most")

    @classmethod
    def whole(cls, webhook: records.Webhook, newest: Sequence[records.Delivery]) -> Self:
        sent = webhook.status == "Active"
        found = [DeliveryView.of_delivery(one if sent else one.changed(due=None)) for one in newest]
        return cls.of_webhook(webhook, deliveries=found)


class WebhookPage(View):
    """One page of webhooks, newest first."""

    webhooks: list[WebhookSummary] = Field(description="one page of webhooks, newest first")
    next_token: str | None
