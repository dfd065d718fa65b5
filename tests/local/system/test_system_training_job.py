"""Runs that are SageMaker training jobs: from POST /v1/runs to a verified export, through faults."""

from __future__ import annotations

from tests.support.job_cloud import skip_where_there_are_no_hosts
from tests.support.system import Json, System

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-cpu-py311-sagemaker"


def spec(nodes: int = 1, **more: object) -> Json:
    return {
        "backend": "training-job",
        "name": "jobs",
        "instanceType": "ml.c5.xlarge",
        "instanceCount": nodes,
        "image": IMAGE,
        "maxRuntimeSeconds": 600,
        **more,
    }


def job(nodes: int = 1, mode: str = "") -> Json:
    return {
        "nodes": nodes,
        "script": "train.py",
        "files": {"train.py": ""},
        "environment": {"STAND_IN": mode} if mode else {},
    }


def test_a_run_is_a_training_job_and_ends_with_a_verified_export(system: System) -> None:
    skip_where_there_are_no_hosts()
    run_id = system.submit("first", job(2), spec(2))
    run = system.ended(run_id, "Succeeded", 120)
    print(system.story(run_id))
    print(system.exported(run_id))
    print(system.api.run(run_id))
    system.assert_gone(system.api.cluster(run["clusterName"]))


def test_a_host_that_is_lost_ends_the_job_and_the_next_one_goes_on(system: System) -> None:
    run_id = system.submit("lost", job(2, "sleep200"), spec(2))
    system.training(run_id)
    system.fault("kill-host")
    run = system.ended(run_id, "Succeeded", 180)
    print(system.story(run_id))


def test_the_same_error_twice_ends_the_run(system: System) -> None:
    run_id = system.submit("fails", job(1, "fail"), spec(1))
    run = system.ended(run_id, "Failed", 180)
    print(system.story(run_id)); print(run["problem"])


def test_a_cancelled_run_stops_its_job(system: System) -> None:
    run_id = system.submit("cancelled", job(1, "sleep200"), spec(1, warmPoolSeconds=600))
    system.training(run_id)
    print(system.api._call("GET", f"/v1/runs/{run_id}/logs"))
    print(system.api.nodes(system.api.run(run_id)["clusterName"]))
    system.api.cancel_run(run_id)
    run = system.ended(run_id, "Cancelled", 180)
    print(system.story(run_id)); print(run["problem"])
    print(system.aws("sagemaker").list_training_jobs()["TrainingJobSummaries"])


def test_a_job_without_capacity_says_so(system: System) -> None:
    system.fault("no-capacity", instanceType="ml.c5.9xlarge")
    run_id = system.submit("none", job(1), spec(1, instanceType="ml.c5.9xlarge"), recovery={"waitForNodeSeconds": 0})
    run = system.ended(run_id, "Failed", 180)
    print(system.story(run_id)); print(run["problem"])
