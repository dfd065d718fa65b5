"""How a training job is described, and what its events say."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard_local.training_jobs import views
from trainyard_local.training_jobs.job import TrainingJob, WarmPool


def a_job(**more: Any) -> TrainingJob:
    request = {
        "TrainingJobName": "job",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"},
        "Tags": [{"Key": "run", "Value": "1"}],
        **more,
    }
    job = TrainingJob(request, "arn:job", lambda _: None)
    job.enter("Starting", "starting")
    return job


def test_what_did_not_happen_yet_is_not_described() -> None:
    described = views.describe(a_job())
    absent = {"FailureReason", "ModelArtifacts", "TrainingStartTime", "WarmPoolStatus", "Tags"}
    assert absent.isdisjoint(described)
    assert described["StoppingCondition"] == {"MaxRuntimeInSeconds": 86400}


def test_an_ended_job_tells_its_times_and_its_model() -> None:
    job = a_job()
    job.begin()
    job.bill(2.6)
    job.keep_artifacts()
    job.end("Completed")
    described = views.describe(job)
    assert described["BillableTimeInSeconds"] == 3
    assert described["TrainingTimeInSeconds"] == 1
    uri = "s3://bucket/out/job/output/model.tar.gz"
    assert described["ModelArtifacts"] == {"S3ModelArtifacts": uri}


def test_an_event_has_its_times_in_milliseconds_and_the_tags_as_a_map() -> None:
    job = a_job()
    detail = views.event(job)
    assert detail["Tags"] == {"run": "1"}
    assert detail["CreationTime"] == int(job.created_at.timestamp() * 1000)
    [transition] = detail["SecondaryStatusTransitions"]
    assert isinstance(transition["StartTime"], int)


@pytest.mark.parametrize(
    ("pool", "view"),
    [
        (WarmPool(), {"Status": "InUse"}),
        (
            WarmPool("Reused", "next", None, 7),
            {
                "Status": "Reused",
                "ReusedByJob": "next",
                "ResourceRetainedBillableTimeInSeconds": 7,
            },
        ),
    ],
)
def test_a_warm_pool_is_told_as_the_model_has_it(pool: WarmPool, view: dict[str, Any]) -> None:
    assert views.warm_pool(pool) == view


def test_uncompressed_models_lie_in_a_directory() -> None:
    output = {"S3OutputPath": "s3://bucket", "CompressionType": "NONE"}
    job = a_job(OutputDataConfig=output)
    assert views.artifacts_uri(job.request) == "s3://bucket/job/output/model/"
