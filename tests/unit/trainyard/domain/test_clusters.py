"""Where the making of a cluster stands, and when a cluster may be deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.cluster_facts import creating, fact
from tests.support.facts import fact as made_fact
from tests.support.records import NOW

from trainyard.domain.clusters import Seen, failure, judge
from trainyard.domain.states import BackendStatus, NodeState
from trainyard_contracts.events import Fact


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


def no_slurmd(severity: str = "error", seconds: float = 0, node: str = "ip-1") -> Fact:
    return made_fact(
        "NodeUnhealthy",
        f"{100 + int(seconds)}",
        NOW + timedelta(seconds=seconds),
        clusterName="c",
        node=node,
        check="slurm-daemon",
        severity=severity,
        detail=f"{node}: slurmd does not listen on port 6818; its log says: no cgroup",
    )


def test_a_node_whose_slurm_daemon_does_not_start_ends_the_making_with_the_daemons_reason() -> None:
    seen = Seen(BackendStatus.IN_SERVICE)
    soon, late = (NOW + timedelta(seconds=seconds) for seconds in (299, 300))
    waits = judge(creating(), [no_slurmd()], seen, soon, 3600)
    assert (waits.next, "its log says: no cgroup" in waits.reason) == ("await", True)
    ended = judge(creating(), [no_slurmd()], seen, late, 3600)
    assert ended.next == "fail"
    assert ended.problem is not None
    assert (ended.problem.code, "ip-1: slurmd" in ended.problem.detail) == ("cluster-failed", True)


def test_a_slurm_daemon_that_runs_at_last_ends_no_cluster() -> None:
    facts = [no_slurmd(), no_slurmd("healthy", 200)]
    late = NOW + timedelta(seconds=400)
    assert judge(creating(), facts, Seen(BackendStatus.IN_SERVICE), late, 3600).next == "await"


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("AgentSilent", {"about": {"node": "ip-1", "agent": "silent", "scheduler": "up"}}),
        ("NodesChanged", {"nodes": ["ip-2"], "removed": ["ip-1"]}),
    ],
)
def test_what_a_node_said_that_is_silent_or_away_now_ends_no_cluster(
    kind: str, about: dict[str, Any]
) -> None:
    gone = made_fact(kind, "3", NOW + timedelta(seconds=100), clusterName="c", **about)
    late, seen = NOW + timedelta(seconds=400), Seen(BackendStatus.IN_SERVICE)
    assert judge(creating(), [no_slurmd(), gone], seen, late, 3600).next == "await"
    again = [no_slurmd(), gone, no_slurmd(seconds=101)]
    assert judge(creating(), again, seen, late + timedelta(seconds=1), 3600).next == "fail"


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
