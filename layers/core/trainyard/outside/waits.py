"""Who waits for something: state machines for facts, runs for their turn."""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import Protocol

from trainyard.domain.records import Wait
from trainyard.domain.turn_records import Turns as TurnsRecord


class Waits(Protocol):
    """Task tokens of waiting machines, one per owner; a new wait replaces the old."""

    def store(self, wait: Wait) -> bool:
        """Store it unless a wait that began later is there; False if so."""
        ...

    def get(self, owner: str) -> Wait | None: ...

    def mark_woken(self, owner: str, token: str, at: datetime) -> bool:
        """Conditionally mark this very token as woken; False if another token is stored or none."""
        ...

    def clear(self, owner: str, token: str) -> None:
        """Remove the wait if it is still this token."""
        ...

    def all(self) -> builtins.list[Wait]: ...


class Turns(Protocol):
    """Whose turn it is on each cluster that runs share."""

    def get(self, cluster_name: str) -> TurnsRecord:
        """Those of a cluster; version 0 where nobody had one yet.

        Raises errors.RecordUnreadable.
        """
        ...

    def put(self, turns: TurnsRecord) -> TurnsRecord:
        """As Runs.put, without updated_at; of version 0 if there is none yet."""
        ...
