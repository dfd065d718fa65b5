"""Each minute: call the function that sends, once for each delivery that is due.

Each is a call of its own, so a receiver that is slow delays its own deliveries at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.app.sweep.swept import Swept
from trainyard.domain.webhook_records import Delivery
from trainyard.ports import Ports

#: So many of one webhook a sweep.
AT_ONCE = 20


def due_deliveries(ports: Ports) -> Sequence[Delivery]:
    now = ports.clock.now()
    return [
        delivery
        for webhook in ports.webhooks.active()
        if not webhook.held(now)
        for delivery in ports.webhooks.due(webhook.id, now, at_most=AT_ONCE)
    ]


def delivery_step(ports: Ports, delivery: Delivery) -> Iterator[Swept]:
    """No line of the sweep's log: the function that sends writes one. Twice is once."""
    ports.webhooks.dispatch(delivery)
    return iter(())
