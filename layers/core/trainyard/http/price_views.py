"""What prices were in force, what the time went to, and the budget."""

from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from trainyard.domain.costs import Spell
from trainyard.domain.ledger import Cause
from trainyard.http.views import View


class PriceSpan(View):
    """A time in which nodes were there, and the price that was in force then."""

    since: datetime = Field(description="its first moment, when the price was looked up")
    until: datetime = Field(description="its end, or the moment up to which it is counted")
    ended: bool = Field(description="false: it goes on")
    hourly_usd: float | None = Field(description="of all nodes of the cluster; null: not known")
    source: Literal["list", "given", ""] = Field(
        description="list: AWS's price list, as it was at `since`; given: hourlyUsd of the spec; "
        "'': nobody knows"
    )
    nodes: int = Field(description="of the cluster, spares and controller included")
    share: float = Field(description="the part of it that is this run's")

    @classmethod
    def of_spell(cls, spell: Spell) -> Self:
        return cls.made(
            since=spell.since,
            until=spell.until,
            ended=spell.ended,
            hourly_usd=spell.hourly_usd,
            source=spell.source,
            nodes=spell.nodes,
            share=spell.share,
        )


class LedgerLine(View):
    """What one cause took; all lines together are the bill."""

    cause: Cause
    seconds: float = Field(description="of the clock")
    node_seconds: float = Field(description="of all nodes that are the run's part")
    usd: float | None = Field(description="null: the price is not known")


class BudgetView(View):
    """What this life of the run may still spend."""

    max_usd: float = Field(description="as the spec has it")
    spent_usd: float = Field(description="in this life, up to now")
    held_back_usd: float = Field(description="for saving, export and teardown")
    stops_at: datetime | None = Field(
        description="when the run is stopped if all goes on as it does; null: nothing is spent now"
    )
