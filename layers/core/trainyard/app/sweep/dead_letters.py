"""Events that nobody could record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from trainyard.app.facts.log_batch import envelopes
from trainyard.app.facts.record_fact import record_fact
from trainyard.app.sweep.swept import Swept
from trainyard.app.sweep.swept_names import name_of
from trainyard.domain.errors import TrainyardError
from trainyard.outside.executions import DeadLetter
from trainyard.ports import Ports
from trainyard_contracts.events import ClusterHeartbeat

#: So many dead letters a sweep: recorded within its time limit, even while the table is slow.
LETTERS = 200


def dead_letter(ports: Ports, letter: DeadLetter) -> Iterator[Swept]:
    """Record, late, an event that on-fact failed to record or that never reached it."""
    try:
        result = _recorded_late(ports, letter.body)
    except TrainyardError:
        raise
    except Exception as error:  # noqa: BLE001  (the letter stays; the next ones are tried)
        yield Swept("failed", name_of(letter), f"a dead letter cannot be recorded: {error!r}")
        return
    ports.dead_letters.forget(letter)
    yield Swept("dead letter", name_of(letter), result)


def _recorded_late(ports: Ports, body: str) -> str:
    try:
        envelope = json.loads(body)
    except ValueError:
        envelope = None
    if not isinstance(envelope, dict):
        return "dropped: it is no event"
    if (
        envelope.get("detail-type") == ClusterHeartbeat.__name__
    ):  # an old heartbeat must not make the controller look alive now
        return "dropped: a late heartbeat; the next one tells the same, newer"
    recorded = [record_fact(ports, one) for one in envelopes(envelope)]
    if not recorded:
        return "dropped: nothing that can be read is in it"
    return f"{recorded[-1].result}: {recorded[-1].reason}"


def letters(ports: Ports) -> Sequence[DeadLetter]:
    return ports.dead_letters.take(LETTERS)
