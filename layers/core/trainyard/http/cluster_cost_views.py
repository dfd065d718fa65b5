"""What a cluster has cost."""

from datetime import datetime
from typing import Self

from pydantic import Field

from trainyard.app.runs.cluster_costs import ClusterCost
from trainyard.http.price_views import PriceSpan
from trainyard.http.views import View


class ClusterShare(View):
    """What a run used of a cluster."""

    run_id: str
    usd: float | None = Field(description="null: a price was not known")


class ClusterCostView(View):
    """What the cluster has cost so far, in all generations of its name."""

    cluster_name: str
    usd: float | None = Field(description="null: a price was not known")
    reason: str = Field(description="why usd or idleUsd is null, and what to do")
    at: datetime = Field(description="the moment up to which it is counted")
    node_seconds: float = Field(description="of all its nodes")
    prices: list[PriceSpan] = Field(description="oldest first")
    runs: list[ClusterShare] = Field(description="those that used it")
    idle_usd: float | None = Field(description="what no run used, spares and controller included")

    @classmethod
    def of_cost(cls, name: str, found: ClusterCost) -> Self:
        return cls.made(
            cluster_name=name,
            usd=found.usd,
            reason=found.reason,
            at=found.at,
            node_seconds=found.node_seconds,
            prices=[PriceSpan.of_spell(spell) for spell in found.spells],
            runs=[ClusterShare.made(run_id=run, usd=usd) for run, usd in found.runs.items()],
            idle_usd=found.idle_usd,
        )
