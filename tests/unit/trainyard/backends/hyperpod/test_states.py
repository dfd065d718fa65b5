"""Each word of SageMaker's model for a cluster or node is translated; a new one decides nothing."""

from __future__ import annotations

import botocore.session
import pytest

from trainyard.backends.hyperpod.states import (
    CLUSTERS,
    NODES,
    cluster_status,
    node_message,
    node_state,
)
from trainyard.domain.states import BackendStatus, NodeState


@pytest.mark.parametrize(
    ("shape", "words"), [("ClusterStatus", CLUSTERS), ("ClusterInstanceStatus", NODES)]
)
def test_each_word_of_the_service_model_is_translated(shape: str, words: dict[str, str]) -> None:
    model = botocore.session.get_session().get_service_model("sagemaker").shape_for(shape)
    assert set(words) == set(model.enum)


def test_a_word_that_aws_added_since_is_unknown() -> None:
    assert cluster_status("Hibernating") == BackendStatus.UNKNOWN
    assert node_state("Hibernating") == NodeState.UNKNOWN


def test_a_cluster_that_rolls_back_is_being_changed() -> None:
    assert cluster_status("RollingBack") == BackendStatus.CHANGING


@pytest.mark.parametrize(
    ("word", "message", "shown"),
    [
        ("Running", "", ""),
        ("Failure", "EC2 says so", "EC2 says so"),
        ("SystemUpdating", "", "AWS says SystemUpdating."),
        ("Hibernating", "until spring", "AWS says Hibernating: until spring"),
    ],
)
def test_aws_s_own_word_is_kept_where_ours_says_less(word: str, message: str, shown: str) -> None:
    assert node_message(word, message) == shown
