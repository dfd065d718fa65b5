"""What a run has cost."""

from datetime import datetime

from pydantic import Field

from trainyard.domain.record import Record


class CostLine(Record):
    """What a cause took of the nodes' time, and what that cost."""

    cause: str
    seconds: float
    node_seconds: float
    usd: float | None = None


class RunCost(Record):
    """What a run cost up to a moment, divided by what its nodes did."""

    usd: float | None = Field(default=None, description="null: a price was not known")
    reason: str = Field(default="", description="why usd is null")
    at: datetime = Field(description="the moment up to which it is counted")
    node_seconds: float = 0
    ledger: list[CostLine] = Field(default_factory=list)
