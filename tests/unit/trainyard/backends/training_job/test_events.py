"""The event of a training job becomes a fact about its cluster, with AWS's reason."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from trainyard.backends.training_job.events import read_event
from trainyard.domain.facts import ClusterState
from trainyard.ports import BackendEvent

NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)
ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-job/demo-job"
#: As the guide's page of SageMaker's events shows it, with times as text.
DETAIL: dict[str, Any] = {
    "TrainingJobName": "demo-job",
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


def state(**detail: Any) -> ClusterState:
    event = read_event(envelope(**detail), NOW)
    assert isinstance(event, BackendEvent)
    assert (event.cluster_name, event.cluster_arn) == ("demo-job", ARN)
    assert isinstance(event.fact, ClusterState)
    return event.fact


def test_a_change_is_a_fact_with_the_stage_and_the_event_s_own_id() -> None:
    fact = state()
    assert fact.id == "aws-844e2571-85d4-695f-b930-0153b71dcb42"
    assert (fact.status, fact.failure_message, fact.at) == ("Training", "", NOW)


def test_a_failure_carries_the_reason() -> None:
    reason = "CapacityError: Unable to provision requested ML compute capacity."
    fact = state(TrainingJobStatus="Failed", SecondaryStatus="Failed", FailureReason=reason)
    assert fact.failure_message == reason


def test_a_failure_without_a_reason_has_the_last_transition_s_words() -> None:
    transitions = [
        {"Status": "Starting", "StatusMessage": "Preparing the instances"},
        {"Status": "Failed", "StatusMessage": "Training job failed"},
    ]
    fact = state(TrainingJobStatus="Failed", SecondaryStatusTransitions=transitions)
    assert fact.failure_message == "Training job failed"


def test_a_failure_that_says_nothing_is_still_one() -> None:
    fact = state(TrainingJobStatus="Failed", SecondaryStatusTransitions=None)
    assert fact.failure_message == "the job failed"


def test_a_job_that_aws_ended_says_why() -> None:
    fact = state(TrainingJobStatus="Stopped", SecondaryStatus="MaxWaitTimeExceeded")
    assert "spot.maxWaitSeconds" in fact.failure_message


def test_a_job_that_was_stopped_on_purpose_failed_in_nothing() -> None:
    assert state(TrainingJobStatus="Stopped", SecondaryStatus="Stopped").failure_message == ""


def test_a_null_stage_leaves_the_status() -> None:
    assert state(SecondaryStatus=None).status == "InProgress"


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
    assert read_event({**envelope(), **changed}, NOW) is None


@pytest.mark.parametrize(
    "changed",
    [{"detail": None}, {"id": ""}, {"detail": {}}, {"detail": {"TrainingJobName": 1}}],
)
def test_a_malformed_event_is_dropped_in_words(changed: dict[str, Any]) -> None:
    said = read_event({**envelope(), **changed}, NOW)
    assert isinstance(said, str)
    assert said.startswith("malformed")
