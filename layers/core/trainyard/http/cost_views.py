"""What the API answers of costs, field by field, in camelCase; all sums are in USD."""

from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from trainyard.app.runs.cluster_costs import ClusterCost, Total
from trainyard.app.runs.run_costs import RunCosts
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


class RunCostView(View):
    """What the run has cost so far, in all its lives."""

    run_id: str
    usd: float | None = Field(description="null: a price was not known")
    reason: str = Field(description="why usd is null, and what to do")
    at: datetime = Field(description="the moment up to which it is counted")
    final: bool = Field(description="the run is over, and its sum does not change any more")
    node_seconds: float = Field(description="of all nodes that are its part")
    prices: list[PriceSpan] = Field(description="oldest first")
    ledger: list[LedgerLine] = Field(description="by cause, the useful part first")
    budget: BudgetView | None = Field(description="null: it has none, or it is over")

    @classmethod
    def of_costs(cls, found: RunCosts) -> Self:
        account, at = found.account, found.cost.at
        budget = None
        if account is not None:
            budget = BudgetView.made(
                max_usd=account.limit,
                spent_usd=account.spent,
                held_back_usd=account.tail,
                stops_at=account.moment(at, account.limit - account.tail),
            )
        return cls.made(
            run_id=found.run.id,
            usd=found.cost.usd,
            reason=found.cost.reason,
            at=at,
            final=found.run.terminal,
            node_seconds=found.cost.node_seconds,
            prices=[PriceSpan.of_spell(spell) for spell in found.spells],
            ledger=[LedgerLine.of(line) for line in found.cost.ledger],
            budget=budget,
        )


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
