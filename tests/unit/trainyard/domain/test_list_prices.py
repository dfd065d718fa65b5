"""A dry run where nodes are free says what the list of some day says, and never a number else."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
from tests.support.spec_parts import cluster_spec
from tests.support.training_jobs import spec_fields

from trainyard.backends.hyperpod.prices import product as hyperpod
from trainyard.backends.parallelcluster.prices import product as parallelcluster
from trainyard.backends.training_job.prices import product as training_job
from trainyard.domain.list_prices import TABLE, ListPrice, list_price
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.cluster_specs import read_cluster_spec

REGION = "us-east-1"
PRODUCTS = {
    "hyperpod": hyperpod, "training-job": training_job, "parallelcluster": parallelcluster,
}  # fmt: skip


def listed(
    spec: ClusterBase, region: str, hourly: float | None, part: float = 1.0
) -> ListPrice | None:
    product = PRODUCTS[spec.backend]
    return list_price(spec, region, hourly, lambda type_: product(type_).usage_type, part)


def on_gpus(type_: str = "ml.g5.8xlarge", **fields: Any) -> ClusterBase:
    made = cluster_spec(workers=2, spares=1, **fields)
    for group in made["instanceGroups"]:
        group["instanceType"] = type_
    return read_cluster_spec(made)


def test_the_price_of_free_nodes_is_that_of_the_list_with_its_day() -> None:
    found = listed(on_gpus(), REGION, 0.0)
    assert found is not None
    assert (found.hourly_usd, found.on) == (12.24, date(2026, 9, 15)), "of four nodes"
    assert found.words == (
        "12.24 USD an hour in us-east-1: list price of 2026-09-15, not what the local cloud costs."
    )


def test_of_a_cluster_that_others_use_it_is_the_runs_part() -> None:
    found = listed(on_gpus(), REGION, 0.0, part=0.5)
    assert found is not None
    assert found.hourly_usd == 6.12


@pytest.mark.parametrize(
    ("type_", "region"), [("ml.c5.large", REGION), ("ml.g5.8xlarge", "eu-west-1")]
)
def test_what_is_not_in_the_list_is_not_known_and_no_zero(type_: str, region: str) -> None:
    found = listed(on_gpus(type_), region, 0.0)
    assert found is not None
    assert (found.hourly_usd, found.on) == (None, None)
    assert found.words.startswith("not known: ")
    assert f"no list price of {type_} in {region} is shipped" in found.words


def test_one_type_that_is_not_in_the_list_makes_the_whole_unknown() -> None:
    made = cluster_spec(workers=2)
    made["instanceGroups"][-1]["instanceType"] = "ml.g5.8xlarge"
    found = listed(read_cluster_spec(made), REGION, 0.0)
    assert found is not None
    assert found.hourly_usd is None
    assert "ml.g5.8xlarge" not in found.words


def test_where_a_price_is_known_nobody_needs_the_list() -> None:
    assert listed(on_gpus(), REGION, 3.5) is None
    assert listed(on_gpus(hourlyUsd=2.0), REGION, 2.0) is None


def test_where_the_price_list_does_not_answer_only_a_listed_price_is_said() -> None:
    job = read_cluster_spec(spec_fields(channels=None, instanceType="ml.g5.2xlarge"))
    found = listed(job, REGION, None)
    assert found is not None
    assert found.hourly_usd is not None
    assert "the price list here does not say" in found.words
    assert listed(on_gpus("ml.c5.large"), REGION, None) is None


def test_every_entry_is_of_a_product_that_a_backend_asks_for_in_its_region() -> None:
    """So that it is the on-demand price of that very use, and not a lookalike's."""
    prefixes = {"us-east-1": ("BoxUsage:", "USE1-"), "us-west-2": ("USW2-",)}
    for region, entries in TABLE.items():
        for one in entries:
            type_ = one.usage_type.partition(":")[2]
            asked = [product(type_).usage_type for product in PRODUCTS.values()]
            assert sum(re.fullmatch(wanted, one.usage_type) is not None for wanted in asked) == 1
            assert one.usage_type.startswith(prefixes[region])
            assert one.usd > 0


def test_a_price_of_another_use_of_the_same_type_is_not_taken() -> None:
    job = read_cluster_spec(spec_fields(channels=None, instanceType="ml.g5.8xlarge"))
    found = listed(job, REGION, 0.0)
    assert found is not None
    assert found.hourly_usd is None
