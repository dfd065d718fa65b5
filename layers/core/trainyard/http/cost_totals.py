"""What runs cost, added up."""

from datetime import datetime
from typing import Self

from pydantic import Field

from trainyard.app.runs.cost_totals import Total
from trainyard.http.views import View


class CostTotal(View):
    """Of all runs with one owner, cluster or label's value."""

    key: str = Field(description="an owner's ARN, a cluster, a run, or a label's value; '': none")
    runs: int = Field(description="how many are added up")
    usd: float = Field(description="without the runs whose price is not known")
    unpriced: int = Field(description="runs whose price is not known")
    useful_usd: float = Field(description="the part of usd that trained, and was not done again")
    node_seconds: float = Field(description="of all nodes that were theirs")

    @classmethod
    def of_total(cls, total: Total) -> Self:
        return cls.made(
            key=total.key,
            runs=total.runs,
            usd=total.usd,
            unpriced=total.unpriced,
            useful_usd=total.useful_usd,
            node_seconds=total.node_seconds,
        )


class CostTotals(View):
    """What runs cost, the dearest first; idle time of shared clusters is not in it."""

    by: str = Field(description="as it was asked for")
    at: datetime = Field(description="the moment up to which runs that go on are counted")
    totals: list[CostTotal] = Field(description="the dearest first")
    left_out: bool = Field(description="there are more runs than are looked at; ask by time")
