"""Entries of a training job's list of other capacity: what each changes, and what is refused."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pydantic import ValidationError
from tests.support.training_jobs import spec

from trainyard.http.problems import invalid_request
from trainyard_contracts.training_job import TrainingJobClusterSpec

P5, P4 = "ml.p5.48xlarge", "ml.p4d.24xlarge"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/large"
NETWORK = {"subnetIds": ["subnet-0a1b2c3d"], "securityGroupIds": ["sg-0a1b2c3d"]}
GROUPS = [{"name": "gpu", "instanceType": P4, "instanceCount": 2}]


def ways(*entries: dict[str, Any], **fields: Any) -> list[TrainingJobClusterSpec]:
    found = spec(capacity=list(entries), **fields).ways
    return [cast(TrainingJobClusterSpec, way.spec) for way in found]


def refusal(entry: dict[str, Any], **fields: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        spec(capacity=[entry], **fields)
    return invalid_request(refused.value.errors()).detail


def test_every_type_of_an_entry_is_a_way_of_its_own() -> None:
    made = spec(capacity=[{"instanceTypes": [P5, P4], "tryForSeconds": 60}, {"market": "spot"}])
    assert [(way.words, way.try_for_seconds) for way in made.ways] == [
        (f"{P5}, on demand", 60),
        (f"{P4}, on demand", 60),
        (f"{P4}, spot", 600),
    ]


def test_a_market_is_the_jobs_and_spot_keeps_no_warm_pool() -> None:
    spot, plan, usual = ways(
        {"market": "spot"},
        {"trainingPlanArn": PLAN, "instanceType": P5},
        {"market": "on-demand", "subnetIds": ["subnet-0f0f0f0f"]},
        warmPoolSeconds=300,
        maxRuntimeSeconds=600,
        network=NETWORK,
    )
    assert spot.spot is not None
    assert (spot.spot.max_wait_seconds, spot.warm_pool_seconds) == (1200, None)
    assert (plan.training_plan_arn, plan.spot, plan.warm_pool_seconds) == (PLAN, None, 300)
    assert usual.network is not None
    assert usual.network.subnet_ids == ["subnet-0f0f0f0f"]
    assert usual.network.security_group_ids == ["sg-0a1b2c3d"]
    assert not any(one.capacity for one in (spot, plan, usual))


def test_a_spot_job_that_goes_elsewhere_keeps_its_longest_time() -> None:
    kept, given = ways(
        {"market": "spot", "instanceType": P5},
        {"market": "spot", "maxWaitSeconds": 7200},
        spot={"maxWaitSeconds": 5000},
        maxRuntimeSeconds=600,
    )
    assert kept.spot is not None
    assert given.spot is not None
    assert (kept.spot.max_wait_seconds, given.spot.max_wait_seconds) == (5000, 7200)


@pytest.mark.parametrize(
    ("entry", "fields", "words"),
    [
        ({"market": "plan"}, {}, "trainingPlanArn: market 'plan' needs the plan's ARN"),
        (
            {"market": "spot", "trainingPlanArn": PLAN},
            {},
            "trainingPlanArn: its market is 'plan', and not 'spot'",
        ),
        ({"maxWaitSeconds": 100}, {}, "maxWaitSeconds: is for market 'spot' only"),
        (
            {"market": "spot", "maxWaitSeconds": 100},
            {},
            "capacity.0: with this entry, spot.maxWaitSeconds: 100 is less than",
        ),
        ({"subnetIds": ["subnet-0f0f0f0f"]}, {}, "capacity.0.subnetIds: they need security groups"),
        (
            {"instanceType": P5},
            {"instanceType": None, "instanceCount": None, "instanceGroups": GROUPS},
            "capacity: it chooses the one type of a job's nodes",
        ),
        (
            {"instanceType": "ml.trn1.32xlarge"},
            {"distribution": {"kind": "pytorchddp"}},
            "capacity.0: with this entry, ",
        ),
    ],
)
def test_an_entry_that_no_job_could_be_is_refused(
    entry: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    assert words in refusal(entry, **fields)
