"""What runs cost and what for, from the request to the last node's end; budgets that hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.memory import MemoryPrices
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, in_training, make_cluster, run_spec

from trainyard.app.runs import cluster_costs, cost_totals
from trainyard.app.runs.cluster_costs import cost_of_cluster
from trainyard.app.runs.dry_run import dry_run_run
from trainyard.app.runs.run_costs import RunCosts, costs_of
from trainyard.domain.capacity_facts import PriceInForce
from trainyard.domain.errors import InvalidRequest
from trainyard.http.plan_views import PlanView
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.specs import BudgetSpec

#: Two workers, a spare and the controller, at 1.5 USD an hour each.
HOURLY = 6.0


class NoPrices(MemoryPrices):
    """A price list that cannot be reached."""

    def hourly_usd(self, spec: ClusterSpec, product_of: object) -> float | None:
        return None


def unreachable(story: Story) -> None:
    story.world.ports = replace(story.world.ports, prices=NoPrices())


def cost(story: Story) -> RunCosts:
    return costs_of(story.world.ports, story.run_id)


def causes(story: Story) -> dict[str, float]:
    return {line.cause: line.seconds for line in cost(story).cost.ledger}


def budgeted(story: Story, usd: float, **fields: object) -> None:
    story.submit(run_spec(budget={"maxUsd": usd, "tailSeconds": 60, **fields}))
    story.ready()
    story.training()
    story.checkpoint(10)


def test_a_run_costs_from_its_cluster_s_creation_to_its_deletion() -> None:
    story = in_training()
    story.pass_time(1800)
    so_far = cost(story).cost
    seconds = (story.world.clock.now() - cost(story).spells[0].since).total_seconds()
    assert so_far.usd == pytest.approx(HOURLY * seconds / 3600)
    story.end()
    story.rest()
    assert story.run.status == "Succeeded"
    found = cost(story)
    bill = HOURLY * sum(spell.seconds for spell in found.spells) / 3600
    assert found.cost.usd == pytest.approx(bill)
    assert story.run.cost is not None
    assert story.run.cost.usd == pytest.approx(bill)
    assert sum(line.usd or 0 for line in found.cost.ledger) == pytest.approx(bill)
    story.pass_time(86400)
    assert cost(story).cost.usd == pytest.approx(bill)


def test_a_lost_node_shows_in_the_ledger() -> None:
    story = in_training()
    story.pass_time(600)
    story.lose("ip-127-0-1-12")
    story.pass_time(30)
    story.training("ip-127-0-1-13", "ip-127-0-1-14")
    story.pass_time(600)
    found = causes(story)
    assert found["useful"] >= 1200
    assert found["restart"] >= 30


def test_the_price_at_its_own_time_counts_when_the_list_changes_or_is_away() -> None:
    story = in_training()
    unreachable(story)
    story.pass_time(3600)
    assert cost(story).cost.usd == pytest.approx(HOURLY * cost(story).spells[0].seconds / 3600)


def test_an_unknown_price_is_no_zero_and_a_persons_own_counts() -> None:
    story = Story()
    unreachable(story)
    story.submit()
    story.ready()
    story.training()
    story.pass_time(60)
    found = cost(story).cost
    assert found.usd is None
    assert "hourlyUsd" in found.reason
    other = Story()
    unreachable(other)
    other.submit(run_spec(cluster={"spec": cluster_spec(workers=2, spares=1, hourlyUsd=9.0)}))
    other.ready()
    other.training()
    other.pass_time(3600)
    assert [spell.source for spell in cost(other).spells] == ["given"]
    assert cost(other).cost.usd == pytest.approx(9 * cost(other).spells[0].seconds / 3600)


def test_the_price_is_recorded_once_however_often_the_step_is_repeated() -> None:
    story = in_training()
    facts = story.world.ports.runs.facts(story.run_id)
    assert [fact.hourly_usd for fact in facts if isinstance(fact, PriceInForce)] == [HOURLY]


def test_a_shared_cluster_is_divided_among_its_runs_and_idle_time() -> None:
    story = Story()
    make_cluster(story, "shared")
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    story.pass_time(600)
    story.training()
    story.pass_time(1200)
    whole = cost_of_cluster(story.world.ports, story.world.ports.clusters.get("shared"))
    assert whole.usd is not None
    assert whole.idle_usd is not None
    used = whole.runs[story.run_id]
    assert used is not None
    assert used > 0
    assert whole.idle_usd > 0
    assert used + whole.idle_usd == pytest.approx(whole.usd)
    assert used == pytest.approx(cost(story).cost.usd)


def test_a_run_is_stopped_in_time_with_everything_saved() -> None:
    story = Story()
    budgeted(story, 2.0, warnAt=[0.5])
    for _ in range(60):
        story.pass_time(60)
        story.sweep()
    run = story.run
    assert (run.status, run.problem and run.problem.code) == ("Failed", "budget-exhausted")
    assert run.export is not None
    assert run.export.state == "verified"
    assert run.cluster_deleted
    assert run.cost is not None
    assert run.cost.usd is not None
    assert 1.6 < run.cost.usd <= 2.0 * 1.01
    said = [entry.type for entry in story.world.runs.timeline(run.id, limit=1000, token=None).items]
    assert said.count("BudgetWarned") == 1
    assert said.count("BudgetExhausted") == 1


def test_a_run_that_was_stopped_goes_on_for_the_same_sum_again() -> None:
    from trainyard.app.runs.resume_run import resume_run

    story = Story()
    budgeted(story, 2.0)
    for _ in range(40):
        story.pass_time(60)
    assert story.run.status == "Failed"
    spent = cost(story).cost.usd
    assert spent is not None
    resume_run(story.world.ports, story.run_id)
    story.ready()
    story.training()
    story.pass_time(60)
    assert story.run.status == "Running"
    account = cost(story).account
    assert account is not None
    assert account.spent < 1.0
    found = cost(story).cost.usd
    assert found is not None
    assert found > spent


def test_a_budget_below_its_own_end_is_refused_with_the_number() -> None:
    story = Story()
    with pytest.raises(InvalidRequest, match=r"budget.maxUsd: 1 USD are too little.* give 4 or"):
        story.submit(run_spec(budget={"maxUsd": 1}))
    with pytest.raises(InvalidRequest, match=r"budget\.maxUsd"):
        dry_run_run(story.world.ports, run_spec(budget={"maxUsd": 1}))
    assert story.submit(run_spec(budget={"maxUsd": 4}))


def test_a_dry_run_on_a_shared_cluster_prices_the_run_s_part_of_it() -> None:
    """As it will be counted; of its whole time no more than its budget."""
    story = Story()
    made = make_cluster(story, hourlyUsd=9.0)  # of three workers
    limits = {"maxDurationSeconds": 36000, "expectedSeconds": 3600}
    spec = run_spec(cluster={"name": made.name}, limits=limits)
    plan = PlanView.of_plan(dry_run_run(story.world.ports, spec))
    assert (plan.hourly_usd, plan.expected_usd, plan.most_usd) == (6.0, 6.0, 60.0)
    bound = spec.changed(budget=BudgetSpec(max_usd=40))
    assert PlanView.of_plan(dry_run_run(story.world.ports, bound)).most_usd == 40.0


def test_a_dry_run_never_says_more_than_the_budget() -> None:
    plan = dry_run_run(Story().world.ports, run_spec(budget={"maxUsd": 4}))
    assert PlanView.of_plan(plan).most_usd == 4.0


def test_a_budget_without_a_price_is_refused() -> None:
    story = Story()
    unreachable(story)
    with pytest.raises(InvalidRequest, match=r"cluster\.spec\.hourlyUsd"):
        story.submit(run_spec(budget={"maxUsd": 100}))
    given = cluster_spec(workers=2, spares=1, hourlyUsd=6.0)
    assert story.submit(run_spec(cluster={"spec": given}, budget={"maxUsd": 100}))


def test_a_budget_is_kept_though_the_price_list_is_away_when_the_cluster_is_made() -> None:
    story = Story()
    story.submit(run_spec(budget={"maxUsd": 2, "tailSeconds": 60}))
    unreachable(story)
    story.ready()
    story.training()
    story.checkpoint(10)
    for _ in range(40):
        story.pass_time(60)
    assert story.run.problem is not None
    assert story.run.problem.code == "budget-exhausted"


def test_what_was_idle_is_not_known_where_not_all_runs_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    story.training()
    story.pass_time(60)
    for module in (cluster_costs, cost_totals):
        monkeypatch.setattr(module, "MOST_RUNS", 1)
    whole = cost_of_cluster(story.world.ports, story.world.ports.clusters.get("shared"))
    assert whole.usd is not None
    assert (whole.idle_usd, len(whole.runs)) == (None, 1)
    assert "Only the newest" in whole.reason
