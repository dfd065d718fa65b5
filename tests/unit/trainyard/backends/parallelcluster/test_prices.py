"""A node is priced as the instance that it is."""

from __future__ import annotations

import re

import pytest

from trainyard.backends.parallelcluster.prices import product


@pytest.mark.parametrize(
    ("usage_type", "is_it"),
    [
        ("BoxUsage:p5.48xlarge", True),
        ("USW2-BoxUsage:p5.48xlarge", True),
        ("BoxUsage:p5.48xlarge2", False),
        ("USW2-SpotUsage:p5.48xlarge", False),
        ("DedicatedUsage:p5.48xlarge", False),
        ("BoxUsage:p5x48xlarge", False),
    ],
)
def test_the_price_is_that_of_an_instance_on_demand(usage_type: str, is_it: bool) -> None:
    made = product("p5.48xlarge")
    assert bool(re.fullmatch(made.usage_type, usage_type)) == is_it
    assert made.service == "AmazonEC2"
    assert made.filters[0]["instanceType"] == "p5.48xlarge"
