"""What every event of an agent says, and every event of a run or a node."""

from datetime import timedelta

from pydantic import AwareDatetime, Field
from typing_extensions import Self

from .base import Lenient

SOURCE = "trainyard.agent"


class Fact(Lenient):
    """Something that happened at `at`, recorded once by its `id` and never changed."""

    id: str
    at: AwareDatetime


class AgentEvent(Fact):
    """Fields of every agent event.

    `id` is a ULID that the node makes once: the fact's identity however often it is delivered.
    """

    id: str = Field(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}$")
    cluster_name: str = Field(min_length=1, max_length=63)
    cluster_arn: str
    node: str = Field(default="", description="Slurm name of the node that reports")
    reported_at: AwareDatetime | None = Field(
        default=None,
        description=(
            "set by whoever records it where the node's clock was wrong: "
            "the time that the node gave"
        ),
    )
    signature: str = Field(
        default="",
        exclude=True,
        description=(
            "signatures.signature of the whole event, by the cluster's key; added when it is sent"
        ),
    )

    def moved(self, shift: timedelta) -> Self:
        """The event as if it had happened so much later: every time in it moves along."""
        return self.changed(at=self.at + shift, reported_at=self.at)


class RunEvent(AgentEvent):
    """An event about one run's attempt."""

    run_id: str
    attempt: int = Field(ge=1)


class MeetingEvent(AgentEvent):
    """An event of a node or a whole cluster; it may name the run's attempt that it met there."""

    run_id: str | None = None
    attempt: int | None = None
