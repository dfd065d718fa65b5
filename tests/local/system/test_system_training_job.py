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
