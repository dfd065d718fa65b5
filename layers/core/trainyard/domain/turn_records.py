"""What the table stores of the turns on one cluster: which runs have theirs, and who had one."""

from datetime import datetime

from pydantic import Field

from trainyard.domain.records import Record


class Given(Record):
    """The turn of one run: it may hand its job to Slurm, again and again until training is over."""

    life: int
    at: datetime


class Turns(Record):
    """The turns on one cluster.

    One record has them all, so that two that decide at once never give the same room twice.
    """

    cluster_name: str
    version: int = 0
    given: dict[str, Given] = Field(default_factory=dict, description="by the id of the run")
    held: dict[str, str] = Field(
        default_factory=dict,
        description="runs that a limit keeps from their turn, each with a sentence about it",
    )
    served: dict[str, datetime] = Field(
        default_factory=dict,
        description="when an owner, a value of a label or an array last had a turn",
    )
