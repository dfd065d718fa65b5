"""ParallelCluster's words become the port's; one that is newer decides nothing.

That the tables have every word of the API is compared with its own description in
`tests/parallelcluster/test_words.py`.
"""

from __future__ import annotations

import pytest

from trainyard.backends.parallelcluster.states import cluster_status, node_state, stack_status
from trainyard.domain.states import BackendStatus, NodeState


@pytest.mark.parametrize(
    ("cluster", "stack", "fleet", "status"),
    [
        ("CREATE_IN_PROGRESS", "CREATE_IN_PROGRESS", "UNKNOWN", BackendStatus.CREATING),
        ("CREATE_COMPLETE", "CREATE_COMPLETE", "UNKNOWN", BackendStatus.CREATING),
        ("CREATE_COMPLETE", "CREATE_COMPLETE", "RUNNING", BackendStatus.IN_SERVICE),
        ("CREATE_COMPLETE", "CREATE_COMPLETE", "PROTECTED", BackendStatus.IN_SERVICE),
        ("CREATE_COMPLETE", "CREATE_COMPLETE", "STOPPED", BackendStatus.CHANGING),
        ("CREATE_COMPLETE", "CREATE_COMPLETE", "HIBERNATED", BackendStatus.UNKNOWN),
        ("CREATE_COMPLETE", "", "", BackendStatus.IN_SERVICE),
        ("CREATE_FAILED", "ROLLBACK_IN_PROGRESS", "UNKNOWN", BackendStatus.FAILED),
        ("UPDATE_FAILED", "UPDATE_ROLLBACK_COMPLETE", "RUNNING", BackendStatus.IN_SERVICE),
        ("UPDATE_FAILED", "UPDATE_ROLLBACK_FAILED", "RUNNING", BackendStatus.FAILED),
        ("UPDATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "RUNNING", BackendStatus.CHANGING),
        ("DELETE_IN_PROGRESS", "DELETE_IN_PROGRESS", "RUNNING", BackendStatus.DELETING),
        ("DELETE_FAILED", "DELETE_FAILED", "UNKNOWN", BackendStatus.FAILED),
        ("HIBERNATED", "", "", BackendStatus.UNKNOWN),
    ],
)
def test_a_cluster_is_in_service_only_with_its_stack_and_its_fleet(
    cluster: str, stack: str, fleet: str, status: BackendStatus
) -> None:
    assert cluster_status(cluster, stack, fleet) == status


def test_a_newer_word_of_an_event_or_a_node_is_unknown() -> None:
    assert stack_status("HIBERNATED") == BackendStatus.UNKNOWN
    assert node_state("hibernated") == NodeState.UNKNOWN


def test_a_node_that_stops_is_lost_and_one_that_ends_is_shutting_down() -> None:
    assert node_state("stopping") == NodeState.FAILURE
    assert node_state("terminated") == NodeState.SHUTTING_DOWN
