"""Each word of SageMaker's model for a training job is translated; a new one decides nothing."""

from __future__ import annotations

import botocore.session
import pytest

from trainyard.backends.training_job.states import (
    JOBS,
    OVER,
    STAGES,
    cluster_status,
    is_over,
    node_state,
    words,
)
from trainyard.domain.states import BackendStatus, NodeState


@pytest.mark.parametrize(
    ("shape", "known"), [("TrainingJobStatus", JOBS), ("SecondaryStatus", STAGES)]
)
def test_each_word_of_the_service_model_is_translated(shape: str, known: dict[str, object]) -> None:
    model = botocore.session.get_session().get_service_model("sagemaker").shape_for(shape)
    assert set(known) == set(model.enum)


@pytest.mark.parametrize(
    ("status", "secondary", "cluster", "node"),
    [
        ("InProgress", "Starting", BackendStatus.CREATING, NodeState.PENDING),
        ("InProgress", "Pending", BackendStatus.CREATING, NodeState.PENDING),
        ("InProgress", "Downloading", BackendStatus.CREATING, NodeState.PENDING),
        ("InProgress", "Training", BackendStatus.IN_SERVICE, NodeState.RUNNING),
        ("InProgress", "Uploading", BackendStatus.IN_SERVICE, NodeState.RUNNING),
        ("InProgress", "Interrupted", BackendStatus.CHANGING, NodeState.UPDATING),
        ("InProgress", "Restarting", BackendStatus.CHANGING, NodeState.UPDATING),
        ("Failed", "Failed", BackendStatus.FAILED, NodeState.FAILURE),
        ("Failed", "Training", BackendStatus.FAILED, NodeState.FAILURE),
        ("Stopping", "Stopping", BackendStatus.DELETING, NodeState.SHUTTING_DOWN),
        ("Stopped", "MaxRuntimeExceeded", BackendStatus.DELETING, NodeState.SHUTTING_DOWN),
        ("Completed", "Completed", BackendStatus.DELETING, NodeState.SHUTTING_DOWN),
        ("InProgress", "", BackendStatus.UNKNOWN, NodeState.UNKNOWN),
        ("InProgress", "Hibernating", BackendStatus.UNKNOWN, NodeState.UNKNOWN),
        ("Hibernating", "Training", BackendStatus.UNKNOWN, NodeState.UNKNOWN),
    ],
)
def test_status_and_stage_together_are_the_cluster_s_state(
    status: str, secondary: str, cluster: BackendStatus, node: NodeState
) -> None:
    assert cluster_status(status, secondary) == cluster
    assert node_state(status, secondary) == node


def test_a_job_is_over_when_nothing_follows() -> None:
    assert {status for status in JOBS if is_over(status)} == OVER
    assert not is_over("Stopping")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (("InProgress", "Pending", ""), "the job waits for capacity"),
        (
            ("InProgress", "Starting", "Preparing the instances"),
            "AWS starts the job: Preparing the instances",
        ),
        (("Failed", "", ""), "the job failed"),
        (("InProgress", "Hibernating", ""), "AWS says Hibernating of the job"),
        (("", "", ""), "AWS says nothing of the job"),
    ],
)
def test_people_are_told_in_words(said: tuple[str, str, str], shown: str) -> None:
    assert words(*said) == shown
