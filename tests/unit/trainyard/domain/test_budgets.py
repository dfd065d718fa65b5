"""A budget holds whatever the price is and whenever the run's machine looks at its clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.records import NOW, cluster, run, spec
from tests.support.recovery import acted, fact

from trainyard.domain import budget_accounts, costs
from trainyard.domain.capacity_facts import PriceInForce
from trainyard.domain.decisions import LONGEST_WAIT_SECONDS
from trainyard.domain.records import Export, Run
from trainyard.domain.recovery import decide
from trainyard_contracts.events import Fact
from trainyard_contracts.specs import BudgetSpec


def budgeted(usd: float, tail: int = 600, **fields: Any) -> Run:
    given_ = BudgetSpec(max_usd=usd, tail_seconds=tail)
    return run(spec=spec().model_copy(update={"budget": given_}), opened_at=NOW, **fields)


def price(usd: float | None, seconds: int = 0) -> PriceInForce:
    at = NOW + timedelta(seconds=seconds)
    return PriceInForce(
        id=f"p{seconds}", at=at, generation=1, hourly_usd=usd, source="list", nodes=4, workers=3
    )


def training(*more: Fact) -> list[Fact]:
    nodes = ["ip-127-0-1-12", "ip-127-0-1-13"]
    return [
        *more,
        fact(2, "AttemptStarted", 1, 20, jobId="1", nodes=nodes),
        fact(3, "AttemptStepped", 1, 30, step=1, steppedAt=NOW.isoformat()),
    ]


def played(
    current: Run, facts: list[Fact], now: datetime, late: float = 0.0
) -> tuple[Run, datetime]:
    """Let time pass as the run's own waits say, each `late`, until its training is over."""
    for _ in range(300):
        decision = decide(current, facts, cluster(), now)
        current = acted(current, decision, now)
        if current.outcome is not None:
            return current, now
        if decision.next == "wait":
            now += timedelta(seconds=decision.timeout_seconds + late)
    raise AssertionError("it trains for ever")


@settings(max_examples=80, deadline=None)
@given(
    hourly=st.floats(0.05, 2000),
    tails=st.floats(2, 400),
    tail=st.integers(60, 7200),
    used=st.floats(0, 1),
    late=st.floats(0, 2),
    dearer=st.floats(0.2, 1.5),
)
def test_what_is_spent_is_at_most_the_budget_and_a_hundredth(
    hourly: float, tails: float, tail: int, used: float, late: float, dearer: float
) -> None:
    """Each wait may end some seconds late, the tail takes up to what it may, and on the way the
    cluster was changed to a cheaper or a dearer one, of which the next decision knows.
    """
    limit = hourly * max(1.0, dearer) * tail * tails / 3600
    facts = training(price(hourly), price(hourly * dearer, 45))
    current, now = played(budgeted(limit, tail), facts, NOW + timedelta(seconds=46), late)
    assert current.problem is not None
    if now < NOW + timedelta(seconds=current.spec.limits.max_duration_seconds):
        assert current.problem.code == "budget-exhausted"
    end = now + timedelta(seconds=tail * used)
    spent = costs.usd_of(costs.spells(current, facts, end))
    assert spent is not None
    overrun = hourly * dearer * (46 + late + 1) / 3600
    assert spent <= limit * 1.01 + overrun
    if limit > 110 * overrun:  # a second or two late is nothing beside the budget
        assert spent <= limit * 1.02


def test_each_part_is_warned_of_once() -> None:
    current, facts, said = budgeted(20.0, 600), training(price(12.0)), []
    now = NOW + timedelta(seconds=60)
    while current.outcome is None:
        decision = decide(current, facts, cluster(), now)
        said += [note.data["part"] for note in decision.notes if note.type == "BudgetWarned"]
        assert decision.run.outcome is not None or decision.timeout_seconds < LONGEST_WAIT_SECONDS
        current = acted(current, decision, now)
        if decision.next == "wait":
            now += timedelta(seconds=decision.timeout_seconds)
    assert said == [0.5, 0.8]  # the tail begins at 18 of 20 USD, before 95 %
    assert (now - NOW).total_seconds() == pytest.approx(18 / 12 * 3600, abs=3)


def test_deciding_twice_in_a_moment_decides_the_same() -> None:
    facts, now = training(price(12.0)), NOW + timedelta(hours=2)
    first = decide(budgeted(20.0), facts, cluster(), now)
    again = decide(budgeted(20.0), facts, cluster(), now)
    assert first == again
    assert first.run.outcome == "failed"


def test_an_export_that_took_longer_than_the_tail_counts_half_as_long_again() -> None:
    export = Export(id="e", requested_at=NOW, state="verified")
    facts = [
        price(12.0),
        fact(9, "ExportFinished", None, 1200, runId="run-1", exportId="e", ok=True),
    ]
    found = budget_accounts.account(
        budgeted(50.0, 600, export=export), facts, NOW + timedelta(hours=1)
    )
    assert found is not None
    assert found.tail == pytest.approx(12.0 * 1800 / 3600)


def test_a_budget_whose_price_became_unknown_stops_the_run() -> None:
    decision = decide(budgeted(50.0), training(price(None)), cluster(), NOW + timedelta(hours=1))
    assert decision.run.problem is not None
    assert decision.run.problem.code == "budget-exhausted"


def test_a_run_without_a_budget_waits_as_before() -> None:
    decision = decide(run(), training(price(12.0)), cluster(), NOW + timedelta(days=2))
    assert decision.run.outcome is None


def test_the_least_budget_is_twice_the_tail_in_whole_cents() -> None:
    assert budget_accounts.least_usd(6.0, 1200) == 4.0
    assert budget_accounts.least_usd(1.0, 100) == 0.06
