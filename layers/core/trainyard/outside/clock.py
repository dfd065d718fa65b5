"""The time, and names that nobody else has."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware UTC time."""
        ...


class Ids(Protocol):
    def ulid(self) -> str:
        """A fresh 26-character upper-case ULID."""
        ...

    def random(self, count: int) -> bytes:
        """So many bytes that nobody can guess."""
        ...
