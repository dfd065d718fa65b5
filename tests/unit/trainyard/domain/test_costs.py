"""What a run costs: all of its own cluster, its part of a shared one, while it has nodes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.records import NOW, run

from trainyard.domain import costs
from trainyard.domain.capacity_facts import PriceInForce
from trainyard.domain.cluster_facts import ClusterDeleted
from trainyard.domain.records import Attempt

HOUR = timedelta(hours=1)


def price(hours: float = 0, usd: float | None = 12.0, **fields: object) -> PriceInForce:
    given = {"generation": 1, "source": "list", "nodes": 4, "workers": 3, **fields}
    return PriceInForce.model_validate(
        {"id": f"p{hours}", "at": NOW + hours * HOUR, "hourlyUsd": usd, **given}
    )


def test_its_own_cluster_costs_from_its_creation_to_its_end() -> None:
    deleted = ClusterDeleted(id="d", at=NOW + 2 * HOUR, generation=1)
    found = costs.spells(run(), [price(), deleted], NOW + 5 * HOUR)
    assert costs.usd_of(found) == pytest.approx(24)
    assert [spell.ended for spell in found] == [True]


def test_a_cluster_that_is_kept_costs_the_run_until_the_run_is_over() -> None:
    over = run(finished_at=NOW + HOUR)
    assert costs.usd_of(costs.spells(over, [price()], NOW + 5 * HOUR)) == pytest.approx(12)


def test_a_new_price_counts_from_its_own_time() -> None:
    found = costs.spells(run(), [price(), price(1, 24.0)], NOW + 2 * HOUR)
    assert costs.usd_of(found) == pytest.approx(36)


def test_a_shared_cluster_costs_a_run_its_part_of_the_workers_while_its_jobs_run() -> None:
    jobs = [
        Attempt(number=1, started_at=NOW + HOUR, ended_at=NOW + 2 * HOUR),
        Attempt(number=2, started_at=NOW + 3 * HOUR),
    ]
    found = costs.spells(run(owns_cluster=False, attempts=jobs), [price()], NOW + 4 * HOUR)
    assert costs.usd_of(found) == pytest.approx(12 * 2 / 3 * 2)
    assert [spell.ended for spell in found] == [True, False]


def test_nodes_that_come_with_a_job_cost_from_its_submission() -> None:
    jobs = [Attempt(number=1, submitted_at=NOW + HOUR, ended_at=NOW + 2 * HOUR)]
    found = costs.spells(run(attempts=jobs), [price(by_job=True)], NOW + 4 * HOUR)
    assert costs.usd_of(found) == pytest.approx(12)


def test_the_price_at_the_submission_counts_where_none_was_known_later() -> None:
    priced = run(hourly_usd=6.0)
    found = costs.in_force(priced, costs.spells(priced, [price(usd=None)], NOW + HOUR))
    assert costs.usd_of(found) == pytest.approx(6)
    assert costs.unpriced(found) == ""
    assert "hourlyUsd" in costs.unpriced(costs.spells(run(), [price(usd=None)], NOW + HOUR))
