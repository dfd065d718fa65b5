"""A warm pool goes to a job that wants the same, and to no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainyard_local.training_jobs import pools
from trainyard_local.training_jobs.job import TrainingJob


def request(name: str = "job", **more: Any) -> dict[str, Any]:
    resources = {
        "InstanceType": "ml.c5.xlarge",
        "InstanceCount": 2,
        "VolumeSizeInGB": 10,
        "KeepAlivePeriodInSeconds": 600,
    }
    return {"TrainingJobName": name, "RoleArn": "role", "ResourceConfig": resources, **more}


def resources(**more: Any) -> dict[str, Any]:
    return {"ResourceConfig": {**request()["ResourceConfig"], **more}}


@pytest.mark.parametrize(
    ("more", "same"),
    [
        ({"HyperParameters": {"lr": "1"}}, True),
        (resources(KeepAlivePeriodInSeconds=5), True),
        (resources(InstanceCount=1), False),
        (resources(InstanceType="ml.c5.2xlarge"), False),
        (resources(VolumeSizeInGB=11), False),
        ({"RoleArn": "other"}, False),
        ({"VpcConfig": {"Subnets": ["s"], "SecurityGroupIds": ["g"]}}, False),
        ({"EnableNetworkIsolation": True}, False),
    ],
)
def test_a_match_is_what_awss_page_says(more: dict[str, Any], same: bool) -> None:
    assert (pools.key(request()) == pools.key(request(**more))) is same


def a_job(name: str, **more: Any) -> TrainingJob:
    job = TrainingJob(request(name, **more), f"arn:{name}", lambda _: None)
    job.enter("Starting", "starting")
    return job


def a_fleet() -> Any:
    closed: list[bool] = []
    return SimpleNamespace(hosts=[], whole=True, closed=closed, close=lambda: closed.append(True))


def test_a_taken_pool_is_not_there_for_another_job() -> None:
    kept, fleet, first = pools.WarmPools(), a_fleet(), a_job("first")
    kept.keep(first, fleet)
    assert kept.take(a_job("other", RoleArn="other")) is None
    assert kept.take(a_job("second")) is fleet
    assert kept.take(a_job("third")) is None
    assert first.warm_pool is not None
    assert (first.warm_pool.status, first.warm_pool.reused_by) == ("Reused", "second")
    kept.close()
    assert fleet.closed == []


def test_a_pool_that_lost_a_host_is_not_taken_and_ends_with_the_cloud() -> None:
    kept, fleet, job = pools.WarmPools(), a_fleet(), a_job("first")
    kept.keep(job, fleet)
    fleet.whole = False
    assert kept.take(a_job("second")) is None
    kept.close()
    assert fleet.closed == [True]
    assert job.warm_pool is not None
    assert job.warm_pool.status == "Terminated"
