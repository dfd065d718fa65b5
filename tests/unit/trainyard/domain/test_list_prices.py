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
from trainyard.domain.list_prices import TABLE, list_price
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.cluster_specs import read_cluster_spec

REGION = "us-east-1"


def on_gpus(type_: str = "ml.g5.8xlarge", **fields: Any) -> ClusterBase:
    made = cluster_spec(workers=2, spares=1, **fields)
    for group in made["instanceGroups"]:
        group["instanceType"] = type_
    return read_cluster_spec(made)


def test_the_price_of_free_nodes_is_that_of_the_list_with_its_day() -> None:
    found = list_price(on_gpus(), REGION, 0.0)
    assert found is not None
    assert (found.hourly_usd, found.on) == (12.24, date(2026, 9, 15)), "of four nodes"
    assert found.words == (
        "12.24 USD an hour in us-east-1: list price of 2026-09-15, not what the local cloud costs."
    )


def test_of_a_cluster_that_others_use_it_is_the_runs_part() -> None:
    found = list_price(on_gpus(), REGION, 0.0, part=0.5)
    assert found is not None
    assert found.hourly_usd == 6.12


@pytest.mark.parametrize(
    ("type_", "region"), [("ml.c5.large", REGION), ("ml.g5.8xlarge", "eu-west-1")]
)
def test_what_is_not_in_the_list_is_not_known_and_no_zero(type_: str, region: str) -> None:
    found = list_price(on_gpus(type_), region, 0.0)
    assert found is not None
    assert (found.hourly_usd, found.on) == (None, None)
    assert found.words.startswith("not known: ")
    assert f"no list price of {type_} in {region} is shipped" in found.words


def test_one_type_that_is_not_in_the_list_makes_the_whole_unknown() -> None:
    made = cluster_spec(workers=2)
    made["instanceGroups"][-1]["instanceType"] = "ml.g5.8xlarge"
    found = list_price(read_cluster_spec(made), REGION, 0.0)
    assert found is not None
    assert found.hourly_usd is None
    assert "ml.g5.8xlarge" not in found.words


def test_where_a_price_is_known_nobody_needs_the_list() -> None:
    assert list_price(on_gpus(), REGION, 3.5) is None
    assert list_price(on_gpus(hourlyUsd=2.0), REGION, 2.0) is None


def test_where_the_price_list_does_not_answer_only_a_listed_price_is_said() -> None:
    job = read_cluster_spec(spec_fields(channels=None, instanceType="ml.g5.2xlarge"))
    found = list_price(job, REGION, None)
    assert found is not None
    assert found.hourly_usd is not None
    assert "the price list here does not say" in found.words
    assert list_price(on_gpus("ml.c5.large"), REGION, None) is None


def test_every_entry_is_of_the_product_that_its_backend_asks_for() -> None:
    """So that it is the on-demand price of that very use, and not a lookalike's."""
    products = {
        "hyperpod": hyperpod, "training-job": training_job, "parallelcluster": parallelcluster,
    }  # fmt: skip
    prefix = {"us-east-1": ("", "USE1-"), "us-west-2": ("USW2-",)}
    for (backend, region, type_), price in TABLE.items():
        assert re.fullmatch(products[backend](type_).usage_type, price.usage_type)
        assert price.usage_type.startswith(prefix[region])
        assert price.usd > 0
        assert price.on >= date(2026, 1, 1)
