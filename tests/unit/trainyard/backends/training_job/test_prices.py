"""A node of a training job is found in AWS's price list by its usage type."""

from __future__ import annotations

import re

import pytest

from trainyard.backends.training_job.prices import product

P4D = product("ml.p4d.24xlarge")


def test_both_forms_of_the_type_are_asked_for() -> None:
    assert P4D.service == "AmazonSageMaker"
    assert P4D.filters == (
        {"instanceName": "ml.p4d.24xlarge"},
        {"instanceType": "ml.p4d.24xlarge-Training"},
    )


@pytest.mark.parametrize(
    ("usage", "billed"),
    [
        ("USE1-Train:ml.p4d.24xlarge", True),
        ("Train:ml.p4d.24xlarge", True),
        ("USE1-Cluster:ml.p4d.24xlarge", False),
        ("USE1-Notebk:ml.p4d.24xlarge", False),
        ("USE1-Train:ml.p4de.24xlarge", False),
        ("USE1-Train:ml.p4d.24xlarge-Spot", False),
    ],
)
def test_only_training_is_billed_as_training(usage: str, billed: bool) -> None:
    assert bool(re.fullmatch(P4D.usage_type, usage)) is billed
