"""The event of a training job becomes a fact about its attempt, with AWS's reason."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.events import read_event
from trainyard.domain.job_facts import JobEnded, JobStage
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts.events import Fact
from trainyard_contracts.places import job_name

NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)
RUN = "run-01jdxqzzzzzzzzzzzzzzzzzz8k"
JOB = job_name("prod", RUN, 3)
ARN = f"arn:aws:sagemaker:us-east-1:111122223333:training-job/{JOB}"
DEPLOYMENT = JobDeployment(
    "prod", "us-east-1", "bucket", "bus", "trainyard/prod", "arn:aws:iam::111122223333:policy/b"
)
#: As the guide's page of SageMaker's events shows it, with times as text.
DETAIL: dict[str, Any] = {
    "TrainingJobName": JOB,
    "TrainingJobArn": ARN,
    "TrainingJobStatus": "InProgress",
    "SecondaryStatus": "Training",
    "HyperParameters": {"Hyper": "Parameters"},
    "CreationTime": "1583831889050",
    "SecondaryStatusTransitions": [],
    "Tags": {},
}


def envelope(**detail: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "844e2571-85d4-695f-b930-0153b71dcb42",
        "detail-type": "SageMaker Training Job State Change",
        "source": "aws.sagemaker",
        "detail": {**DETAIL, **detail},
    }


def fact(**detail: Any) -> Fact:
    event = read_event(envelope(**detail), NOW, DEPLOYMENT)
    assert isinstance(event, BackendEvent)
    assert (event.run_id, event.cluster_arn) == (RUN, ARN)
    return event.fact


def test_a_stage_is_one_fact_however_many_events_tell_of_it() -> None:
    transitions = [
        {"Status": "Starting", "StartTime": 1_700_000_000_000},
        {"Status": "Training", "StartTime": "1700000060000"},
    ]
    first, again = (fact(SecondaryStatusTransitions=transitions) for _ in range(2))
    assert first == again
    assert isinstance(first, JobStage)
    assert (first.attempt, first.job_id, first.words) == (3, JOB, "the program runs")
    assert first.at == datetime.fromtimestamp(1_700_000_060, timezone.utc)


def test_the_same_stage_at_another_time_is_another_fact() -> None:
    starting = {"Status": "Starting"}
    once = fact(SecondaryStatus="Starting", SecondaryStatusTransitions=[starting])
    again = fact(SecondaryStatus="Starting", SecondaryStatusTransitions=[starting] * 3)
    assert once.id != again.id


def test_a_stage_without_its_time_has_that_of_now() -> None:
    assert fact().at == NOW
    assert fact(SecondaryStatusTransitions=[{"StartTime": "never"}]).at == NOW
    assert fact(SecondaryStatusTransitions=None, SecondaryStatus=None).at == NOW


def test_an_end_is_one_fact_with_aws_s_reason() -> None:
    reason = "CapacityError: Unable to provision requested ML compute capacity."
    ended = fact(TrainingJobStatus="Failed", SecondaryStatus="Failed", FailureReason=reason)
    assert isinstance(ended, JobEnded)
    assert (ended.id, ended.how, ended.reason) == (f"job-ended-{JOB}", "no-capacity", reason)


def test_a_failure_without_a_reason_has_the_last_transition_s_words() -> None:
    transitions = [{"Status": "Failed", "StatusMessage": "Training job failed"}]
    ended = fact(TrainingJobStatus="Failed", SecondaryStatusTransitions=transitions)
    assert isinstance(ended, JobEnded)
    assert ended.reason == "Training job failed"


def test_a_job_of_another_stack_is_not_ours() -> None:
    for name in ("demo-job", JOB.replace("prod", "prod-2"), f"x{JOB}", f"{JOB}-x"):
        said = read_event(envelope(TrainingJobName=name), NOW, DEPLOYMENT)
        assert said == "not a job of this stack"


@pytest.mark.parametrize(
    "changed",
    [
        {"source": "aws.ec2"},
        {"source": "trainyard"},
        {"detail-type": "SageMaker HyperPod Cluster State Change"},
        {"detail-type": "SageMaker Processing Job State Change"},
    ],
)
def test_an_event_of_something_else_is_not_this_backend_s(changed: dict[str, str]) -> None:
    assert read_event({**envelope(), **changed}, NOW, DEPLOYMENT) is None


@pytest.mark.parametrize(
    "changed",
    [{"detail": None}, {"id": ""}, {"detail": {}}, {"detail": {"TrainingJobName": 1}}],
)
def test_a_malformed_event_is_dropped_in_words(changed: dict[str, Any]) -> None:
    said = read_event({**envelope(), **changed}, NOW, DEPLOYMENT)
    assert isinstance(said, str)
    assert said.startswith("malformed")
