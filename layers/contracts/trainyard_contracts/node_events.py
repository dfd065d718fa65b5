"""What agents report of nodes: lost, silent, unhealthy, and back."""

from datetime import timedelta
from typing import Literal

from pydantic import AwareDatetime, Field
from typing_extensions import Self

from .event_bases import MeetingEvent
from .node_evidence import NodeEvent


class NodeLost(MeetingEvent, NodeEvent):
    """A worker is lost: its agent is silent AND the scheduler (or the training) says so too.

    Or EC2 takes its spot instance back, and the job leaves it while it still answers.
    """

    taken_back_at: AwareDatetime | None = Field(
        default=None, description="when EC2 ends the spot instance; null: it is lost already"
    )

    older_evidence = "lost"

    def moved(self, shift: timedelta) -> Self:
        moved = super().moved(shift)
        at = self.taken_back_at
        return moved.changed(taken_back_at=at + shift) if at is not None else moved


class NodeReturned(NodeEvent):
    """A node that was lost or drained serves jobs again."""

    older_name = "returned"


class AgentSilent(MeetingEvent, NodeEvent):
    """A node's agent is silent, but its scheduler daemon or training go on: nothing is done."""

    older_evidence = "silent"


class AgentBack(NodeEvent):
    """A silent agent reports again."""

    older_name = "back"


class NodeUnhealthy(MeetingEvent):
    """A check's verdict, after debouncing."""

    check: str
    severity: Literal["warning", "error", "healthy"]
    detail: str
