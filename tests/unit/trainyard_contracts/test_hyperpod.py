"""What a HyperPod cluster's spec refuses of its markets and ways, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.spec_parts import cluster_spec

from trainyard_contracts.cluster_specs import read_cluster_spec

PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/large"
SUBNETS = ["subnet-0aaaaaaaaaaaaaaaa"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"instanceType": "ml.p5.48xlarge", "instanceTypes": ["ml.p5e.48xlarge"]}, "give one of"),
        ({"market": "plan"}, "trainingPlanArn: market 'plan' needs the plan's ARN"),
        ({"market": "spot", "trainingPlanArn": PLAN}, "its market is 'plan', and not 'spot'"),
        ({"trainingPlanArn": "large"}, "String should match pattern"),
        ({"instanceType": "p5.48xlarge"}, "String should match pattern"),
        ({"tryForSeconds": -1}, "greater than or equal to 0"),
        ({"subnetIds": []}, "at least 1 item"),
        ({"zones": ["us-east-1a"]}, "Extra inputs are not permitted"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match="capacity") as refused:
        read_cluster_spec(cluster_spec(capacity=[{}, entry]))
    [mistake] = refused.value.errors()
    assert mistake["loc"][:2] == ("capacity", 1)
    assert words in mistake["msg"]


def test_ways_are_of_one_worker_group() -> None:
    spec = cluster_spec(capacity=[{}])
    spec["instanceGroups"].append({**spec["instanceGroups"][1], "name": "more"})
    with pytest.raises(ValidationError, match="capacity: it chooses the instances of one worker"):
        read_cluster_spec(spec)


def test_subnets_of_an_entry_need_security_groups() -> None:
    spec = cluster_spec(capacity=[{}, {"subnetIds": SUBNETS}])
    del spec["network"]
    with pytest.raises(ValidationError, match=r"capacity\.1\.subnetIds: they need security groups"):
        read_cluster_spec(spec)


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        (0, {"market": "spot"}, "market: 'spot' is for worker groups only"),
        (1, {"market": "spot", "trainingPlanArn": PLAN}, "market: a training plan's nodes"),
    ],
)
def test_spot_nodes_are_workers_without_a_plan(
    place: int, change: dict[str, Any], words: str
) -> None:
    spec = cluster_spec()
    spec["instanceGroups"][place].update(change)
    with pytest.raises(ValidationError, match=words):
        read_cluster_spec(spec)


def test_an_entry_on_demand_leaves_the_groups_own_plan_out() -> None:
    spec = cluster_spec(capacity=[{}, {"market": "on-demand"}])
    spec["instanceGroups"][1]["trainingPlanArn"] = PLAN
    first, second = read_cluster_spec(spec).ways
    assert [first.words, second.words] == [
        "ml.m5.large, training plan",
        "ml.m5.large, on demand",
    ]
    assert [way.spec.instance_groups[1].on_demand for way in (first, second)] == [False, True]
