"""Makes events: each has an id of its own, and is stored together with the change it reports."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from trainyard_agent.events import pending
from trainyard_agent.events.store import Change, Store
from trainyard_agent.host.identifiers import ulid
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.event_bases import AgentEvent

E = TypeVar("E", bound=AgentEvent)
TICK = timedelta(microseconds=1)


class Reporter:
    """For the event loop's thread; `on_event` lets the heartbeat follow a change at once."""

    def __init__(
        self,
        config: AgentConfig,
        store: Store,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._config, self.store, self._clock = config, store, clock
        self._last = datetime.min.replace(tzinfo=timezone.utc)

    def make(self, kind: Callable[..., E], **fields: Any) -> E:
        """An event that happened now, on this node.

        Its time is after that of every earlier one, also where the clock was set back. Events may
        arrive in any order, so readers go by their times: a loss from before a return is over.
        """
        self._last = max(self._clock(), self._last + TICK)
        return kind(
            id=ulid(),
            at=self._last,
            cluster_name=self._config.cluster_name,
            cluster_arn=self._config.cluster_arn,
            node=self._config.node_name,
            **fields,
        )

    def report(self, *events: AgentEvent, change: Change | None = None) -> None:
        """Commit a change and its events in one transaction; they are sent at once."""

        def commit(connection: sqlite3.Connection) -> None:
            if change is not None:
                change(connection)
            for event in events:
                pending.add(connection, event)

        self.store.apply(commit)

    def sample(self, event: AgentEvent) -> None:
        """Queue an event that may be dropped when there is no room.

        The next one says the same, newer.
        """

        def commit(connection: sqlite3.Connection) -> None:
            pending.add(connection, event, sample=True)
            self.store.trim_samples()

        self.store.apply_sample(commit)
