"""Where the making of a cluster stands, and when a cluster may be deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.cluster_facts import creating, fact
from tests.support.records import NOW

from trainyard.domain.clusters import Seen, failure, judge
from trainyard.domain.states import BackendStatus, NodeState


def test_a_cluster_is_ready_when_its_nodes_joined_not_when_aws_says_in_service() -> None:
    assert judge(creating(), [], Seen(BackendStatus.IN_SERVICE), NOW, 600).next == "await"
    assert judge(creating(), [], Seen(BackendStatus.IN_SERVICE), NOW, 600).in_service
    assert (
        judge(creating(), [fact("ClusterReady")], Seen(BackendStatus.IN_SERVICE), NOW, 600).next
        == "ready"
    )


def test_a_failed_cluster_keeps_awss_reason() -> None:
    decision = judge(
        creating(),
        [],
        Seen(BackendStatus.FAILED, "Lifecycle scripts did not run successfully."),
        NOW,
        600,
    )
    assert decision.next == "fail"
    assert decision.problem is not None
    assert decision.problem.code == "lifecycle-failed"
    assert "did not run successfully" in decision.problem.detail


def test_a_lifecycle_script_that_fails_again_and_again_is_not_paid_for_without_end() -> None:
    broken = [fact("LifecycleFailed", description=f"i-{number} failed") for number in range(3)]
    assert judge(creating(), broken[:2], Seen(BackendStatus.IN_SERVICE), NOW, 600).next == "await"
    assert judge(creating(), broken, Seen(BackendStatus.IN_SERVICE), NOW, 600).next == "fail"


CAPACITY = (
    "We currently do not have sufficient capacity to launch new ml.p5.48xlarge instances. "
    "Please try again."
)


def test_a_cluster_that_is_late_because_there_is_no_capacity_says_so() -> None:
    told = [fact("ClusterEvent", description="Failed to provision", failureMessage=CAPACITY)]
    late = NOW + timedelta(seconds=600)
    assert judge(creating(), told, Seen(BackendStatus.IN_SERVICE), NOW, 600).next == "await"
    found = judge(creating(), told, Seen(BackendStatus.IN_SERVICE), late, 600).problem
    assert found is not None
    assert (found.code, CAPACITY in found.detail, "600 s" in found.detail) == (
        "no-capacity",
        True,
        True,
    )


def test_a_cluster_that_is_late_for_another_reason_keeps_that_reason() -> None:
    told = [
        fact(
            "ClusterEvent",
            description="Failed to provision",
            failureMessage="The subnet has no free address.",
        )
    ]
    found = judge(
        creating(), told, Seen(BackendStatus.IN_SERVICE), NOW + timedelta(seconds=600), 600
    ).problem
    assert found is not None
    assert (found.code, "no free address" in found.detail) == ("cluster-deadline", True)
    unknown = judge(
        creating(), [], Seen(BackendStatus.IN_SERVICE), NOW + timedelta(seconds=600), 600
    ).problem
    assert unknown is not None
    assert "AWS said" not in unknown.detail


def test_a_controller_that_is_lost_before_the_cluster_is_ready_fails_it_at_once() -> None:
    assert (
        judge(
            creating(), [], Seen(BackendStatus.IN_SERVICE, controller=NodeState.RUNNING), NOW, 600
        ).next
        == "await"
    )
    decision = judge(
        creating(), [], Seen(BackendStatus.IN_SERVICE, controller=NodeState.FAILURE), NOW, 600
    )
    assert decision.next == "fail"
    assert decision.problem is not None
    assert "controller of cluster 'c' was lost" in decision.problem.detail


def test_the_deadline_ends_the_wait() -> None:
    late = NOW + timedelta(seconds=600)
    decision = judge(creating(), [], Seen(BackendStatus.CREATING), late, 600)
    assert decision.problem is not None
    assert decision.problem.code == "cluster-deadline"
    assert (
        judge(
            creating(), [], Seen(BackendStatus.CREATING), late - timedelta(seconds=3), 600
        ).timeout_seconds
        == 4
    )


def test_a_new_cluster_that_is_not_visible_yet_is_waited_for() -> None:
    assert judge(creating(), [], None, NOW + timedelta(seconds=30), 600).next == "await"
    assert judge(creating(), [], None, NOW + timedelta(seconds=130), 600).next == "fail"


@pytest.mark.parametrize("status", ["Ready", "Deleting", "Deleted", "Failed"])
def test_a_cluster_that_is_ready_or_going_needs_no_maker(status: str) -> None:
    assert (
        judge(creating(status=status), [], Seen(BackendStatus.IN_SERVICE), NOW, 600).next == "stop"
    )


def test_the_codes_of_failures() -> None:
    assert failure("InsufficientInstanceCapacity").code == "no-capacity"
    assert failure("something").code == "cluster-failed"
