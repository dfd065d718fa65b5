"""What the API answers of costs, field by field, in camelCase; all sums are in USD."""

from datetime import datetime
from typing import Self

from pydantic import Field

from trainyard.app.runs.run_costs import RunCosts
from trainyard.http.price_views import BudgetView, LedgerLine, PriceSpan
from trainyard.http.views import View


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
