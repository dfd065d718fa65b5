"""What became of a webhook's message."""

from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from trainyard.domain import webhook_records as records
from trainyard.http.views import View


class TryView(View):
    """One request to the receiver."""

    at: datetime = Field(description="when it was sent")
    status: int | None = Field(description="of HTTP; null: no answer came")
    said: str = Field(description="why it failed; '' of one that succeeded or is not over")


class DeliveryView(View):
    """One event for one receiver."""

    id: str = Field(description="the header webhook-id of all its tries")
    type: str = Field(description="of the event")
    event_id: str = Field(description="the id in the event")
    state: Literal["waiting", "delivered", "failed"]
    next_try_at: datetime | None = Field(
        description="null: it is not tried again, or not while the webhook is Disabled"
    )
    tries: list[TryView] = Field(description="oldest first, the newest 20")
    created_at: datetime

    @classmethod
    def of_delivery(cls, delivery: records.Delivery) -> Self:
        return cls.of(
            delivery,
            type=delivery.event.type,
            event_id=delivery.event.id,
            next_try_at=delivery.due,
            tries=[TryView.of(one) for one in delivery.tries],
        )
