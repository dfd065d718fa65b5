"""Secrets."""

from __future__ import annotations

from typing import Protocol


class Secrets(Protocol):
    def ensure(self, name: str) -> str:
        """Create a random secret if there is none; returns its ARN."""
        ...

    def read(self, name: str, *, fresh: bool = False) -> str | None:
        """The secret, or None if there is none.

        It may be some minutes old, or seconds with `fresh`.
        """
        ...

    def write(self, name: str, value: str) -> None:
        """Make it if there is none, else replace what it holds."""
        ...

    def delete(self, name: str) -> None:
        """Delete if it is there."""
        ...
