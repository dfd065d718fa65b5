"""State machines, and the events that nobody could record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class DeadLetter:
    """An event that could not be recorded.

    `body` is its envelope as EventBridge delivered it, `receipt` is what it is forgotten by.
    """

    receipt: str
    body: str


class Executions(Protocol):
    """State machines."""

    def start(
        self, machine: Literal["run", "cluster", "teardown"], name: str, payload: Mapping[str, Any]
    ) -> None:
        """StartExecution; the same name again is fine."""
        ...

    def status(self, machine: Literal["run", "cluster", "teardown"], name: str) -> str | None:
        """RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED, or None if it never started."""
        ...

    def succeed(self, token: str, output: Mapping[str, Any]) -> bool:
        """SendTaskSuccess; False if the token is spent or timed out."""
        ...


class DeadLetters(Protocol):
    """Events that on-fact failed to record, or that never reached it."""

    def take(self, limit: int) -> list[DeadLetter]:
        """Up to `limit` letters, which no other caller gets for a while; [] if there is none.

        A letter that is not forgotten comes again.
        """
        ...

    def forget(self, letter: DeadLetter) -> None:
        """Delete it; one that is gone already is fine."""
        ...
