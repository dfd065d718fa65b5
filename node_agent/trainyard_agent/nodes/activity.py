"""The interface by which the parts that judge nodes ask about the jobs on these nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Activity:
    """A job that uses a node.

    ended: it left Slurm. stepped_at: when it last stepped (monotonic). step_seconds: how long its
    steps take. pause: how long it makes none now and then. read_at: when its steps were read last.
    """

    run_id: str
    attempt: int
    ended: bool
    stepped_at: float | None
    step_seconds: float | None
    pause: float = 0.0
    read_at: float | None = None


class Jobs(Protocol):
    def on_node(self, node: str) -> Activity | None:
        """The active attempt whose job uses the node."""
        ...

    def busy(self) -> bool:
        """Whether any attempt is active."""
        ...

    def leftovers(self, node: str) -> list[tuple[str, int, list[str]]]:
        """Attempts that are over and that the node may still run.

        One entry a run: its id, the newest such attempt, the jobs of that one and of older ones.
        """
        ...


def named(activity: Activity | None) -> dict[str, Any]:
    """The fields of an event that say during which attempt it happened."""
    return {"run_id": activity.run_id, "attempt": activity.attempt} if activity else {}
