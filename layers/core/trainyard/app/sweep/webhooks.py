"""Each minute: call the function that sends, once for each delivery that is due.

Each is a call of its own, so a receiver that is slow delays its own deliveries at most. Calls at
once are the whole account's: receivers that fail, and may hang, have few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain, islice, zip_longest

from trainyard.app.sweep.swept import Swept
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard.ports import Ports

#: So many of one webhook a sweep.
AT_ONCE = 20
#: Of webhooks whose last try failed so many in all, one of each, in turn.
MOST_FAILING = 10


def due_deliveries(ports: Ports) -> Sequence[Delivery]:
    """Of each webhook in turn, then those of webhooks in trouble."""
    now = ports.clock.now()
    sent_to = [webhook for webhook in ports.webhooks.active() if not webhook.held(now)]
    well = [
        ports.webhooks.due(webhook.id, now, at_most=AT_ONCE)
        for webhook in sent_to
        if webhook.failing_since is None
    ]
    in_turn = chain.from_iterable(zip_longest(*well))
    return [*(one for one in in_turn if one is not None), *_of_failing(ports, sent_to, now)]


def _of_failing(ports: Ports, sent_to: Sequence[Webhook], now: datetime) -> list[Delivery]:
    failing = [one for one in sent_to if one.failing_since is not None]
    failing.sort(key=lambda one: one.failed_at or one.created_at)
    due = (ports.webhooks.due(one.id, now, at_most=1) for one in failing)
    return list(islice(chain.from_iterable(due), MOST_FAILING))


def delivery_step(ports: Ports, delivery: Delivery) -> Iterator[Swept]:
    """No line of the sweep's log: the function that sends writes one. Twice is once."""
    ports.webhooks.dispatch(delivery)
    return iter(())
