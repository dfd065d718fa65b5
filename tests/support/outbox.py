"""Events and a store for tests of the outbox."""

from __future__ import annotations

from typing import Any

from trainyard_agent.events import pending
from trainyard_agent.events.outbox import Sender
from trainyard_agent.events.store import Store

KEY = b"0123456789abcdef"


class Bus:
    """Takes what it is given, or answers as told."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.answers: list[Any] = []

    def put(self, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        results = answer or [{"EventId": "x"} for _ in entries]
        self.taken += [
            entry for entry, result in zip(entries, results, strict=True) if "EventId" in result
        ]
        return results


def sender(store: Store, bus: Bus) -> Sender:
    found = Sender(store.path, "bus", "us-east-1", KEY)
    found._put = bus.put
    return found


def add(store: Store, *events: Any, sample: bool = False) -> None:
    store.apply(lambda db: [pending.add(db, event, sample=sample) for event in events] and None)


def waiting(store: Store) -> list[str]:
    return [kind for (kind,) in store.connection.execute("SELECT kind FROM outbox ORDER BY seq")]
