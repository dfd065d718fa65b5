"""The arrays in the table."""

from __future__ import annotations

import builtins
from typing import Protocol

from trainyard.domain.array_records import RunArray
from trainyard.outside.pages import Page


class Arrays(Protocol):
    """Arrays of runs."""

    def create(self, array: RunArray) -> RunArray:
        """Store it, or answer with the one that is there by its id."""
        ...

    def get(self, array_id: str) -> RunArray:
        """Raises errors.ArrayNotFound, errors.RecordUnreadable."""
        ...

    def put(self, array: RunArray) -> RunArray:
        """As Runs.put."""
        ...

    def list(self, *, limit: int, token: str | None) -> Page[RunArray]:
        """As Runs.list."""
        ...

    def active(self) -> builtins.list[RunArray]:
        """Every array that is not over and that this version can read."""
        ...
