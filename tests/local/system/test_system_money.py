"""A run on real nodes whose budget ends before it: saved, stopped in time, and paid for."""

from __future__ import annotations

import pytest
from tests.support.spec_parts import cluster_spec
from tests.support.system import System, light_job

from trainyard_cli.problems import ApiProblem

#: One USD a second, so that a budget is a time: this run would need hours.
HOURLY_USD = 3600.0
MOST_USD = 240.0
#: A shared one ends a minute earlier, as it is looked at once a minute.
SHARED_USD = 300.0
BUDGET = {"maxUsd": MOST_USD, "tailSeconds": 90, "warnAt": [0.1]}


@pytest.mark.long
def test_a_budget_ends_a_run_in_time_with_everything_saved(system: System) -> None:
    run_id = system.submit(
        "budget",
        light_job(1, steps=100_000, every=5, step_seconds=0.2),
        cluster_spec("budget", hourlyUsd=HOURLY_USD),
        budget=BUDGET,
    )
    system.training(run_id, checkpoints=1, seconds=200.0)
    so_far = system.api.run_cost(run_id)
    assert so_far["prices"][0]["source"] == "given"
    assert so_far["budget"]["stopsAt"] is not None
    run = system.ended(run_id, "Failed", seconds=400.0)
    assert run["problem"]["code"] == "budget-exhausted"
    assert run["export"]["state"] == "verified"
    assert run["clusterDeleted"]
    assert len(system.timeline(run_id, "BudgetWarned")) == 1
    found = system.api.run_cost(run_id)
    assert found["usd"] == pytest.approx(run["costUsd"])
    assert 0.4 * MOST_USD < found["usd"] <= 1.01 * MOST_USD
    assert sum(line["usd"] for line in found["ledger"]) == pytest.approx(found["usd"], rel=0.01)
    assert {"creation", "useful", "saving"} <= {line["cause"] for line in found["ledger"]}


@pytest.mark.long
def test_a_budget_that_runs_share_ends_them_in_time_and_refuses_the_next(system: System) -> None:
    shared = {"label": "team=money", "maxUsd": SHARED_USD, "tailSeconds": 90, "warnAt": [0.1]}
    system.api.set_budget("money", {**shared, "per": "total"})
    job = light_job(1, steps=100_000, every=5, step_seconds=0.2)
    spec = cluster_spec("shared-money", hourlyUsd=HOURLY_USD)
    run_id = system.submit("money", job, spec, labels={"team": "money"})
    try:
        system.training(run_id, checkpoints=1, seconds=200.0)
        run = system.ended(run_id, "Failed", seconds=400.0)
        assert run["problem"]["code"] == "budget-exhausted"
        assert "'money'" in run["problem"]["detail"]
        assert run["export"]["state"] == "verified"
        assert run["clusterDeleted"]
        assert 0.1 * SHARED_USD < run["costUsd"] <= 1.01 * SHARED_USD
        found = system.api.budget("money")
        assert found["status"] == "used-up"
        assert 0 < found["spentUsd"] <= 1.01 * SHARED_USD
        with pytest.raises(ApiProblem) as refused:
            system.api.resume_run(run_id)
        assert refused.value.code == "budget-used-up"
    finally:
        system.api.remove_budget("money")
