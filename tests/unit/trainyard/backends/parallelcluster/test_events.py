"""CloudFormation's events and clustermgtd's lines become facts; what is no news is dropped."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from trainyard.backends.parallelcluster.events import (
    PROTECTED_MODE,
    TROUBLES,
    read_event,
    read_line,
)
from trainyard.domain.capacity_refusals import Refusal, classify
from trainyard.domain.cluster_facts import ClusterEvent, ClusterState, LifecycleFailed
from trainyard.outside.seen_events import BackendEvent

Json = dict[str, Any]
NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)
ARN = "arn:aws:cloudformation:us-east-1:111122223333:stack/{}/0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"


def stack_event(name: str = "demo", **detail: Any) -> Json:
    """As EventBridge delivers it (CloudFormation User Guide, Stack Status Change event detail)."""
    return {
        "version": "0",
        "id": "6a7e8feb",
        "detail-type": "CloudFormation Stack Status Change",
        "source": "aws.cloudformation",
        "detail": {
            "stack-id": ARN.format(name),
            "status-details": {"status": "CREATE_FAILED", "status-reason": "no capacity"},
            "client-request-token": "",
            **detail,
        },
    }


def test_a_change_of_the_clusters_stack_is_a_fact_with_its_reason() -> None:
    read = read_event(stack_event(), NOW)
    assert isinstance(read, BackendEvent)
    assert isinstance(read.fact, ClusterState)
    assert (read.cluster_name, read.cluster_arn) == ("demo", ARN.format("demo"))
    assert (read.fact.status, read.fact.failure_message) == ("CREATE_FAILED", "no capacity")
    assert read.fact.id == "aws-6a7e8feb"


@pytest.mark.parametrize(
    "name",
    ["demo-QueuesNestedStackQueuesNestedStackResource-1A2B3C4D5E6F7", "demo-Login-ABCDEFGHIJKL"],
)
def test_a_stack_within_the_clusters_own_is_dropped(name: str) -> None:
    assert read_event(stack_event(name), NOW) == "an event of a stack within another one"


@pytest.mark.parametrize("name", ["demo", "llm-pretrain", "demo-0a1b2c", "a-b-c-d"])
def test_no_name_of_ours_is_taken_for_one_that_cloudformation_made(name: str) -> None:
    assert isinstance(read_event(stack_event(name), NOW), BackendEvent)


@pytest.mark.parametrize(
    ("envelope", "why"),
    [
        ({"source": "aws.sagemaker"}, None),
        ({**stack_event(), "detail-type": "CloudFormation Resource Status Change"}, "do not read"),
        ({**stack_event(), "id": ""}, "malformed: no detail or no id"),
        ({**stack_event(), "detail": None}, "malformed: no detail or no id"),
        (stack_event(**{"stack-id": "demo"}), "malformed: no stack-id"),
        (stack_event(**{"status-details": None}), "malformed: no status-details"),
    ],
)
def test_what_is_not_ours_or_malformed_is_dropped_with_a_reason(
    envelope: Json, why: str | None
) -> None:
    read = read_event(envelope, NOW)
    assert read is None if why is None else why in str(read)


def line(kind: str, **detail: Any) -> Json:
    """As clustermgtd writes it (cluster_event_publisher.py)."""
    return {
        "datetime": "2026-11-24T23:52:11.975+00:00",
        "version": 0,
        "scheduler": "slurm",
        "cluster-name": "demo",
        "node-role": "HeadNode",
        "component": "clustermgtd",
        "level": "WARNING",
        "instance-id": "i-019e782246a24d07e",
        "event-type": kind,
        "message": "Number of nodes that failed to launch",
        "detail": detail,
    }


NO_CAPACITY = line(
    "node-launch-failure-count",
    **{
        "failure-type": "ice-failures",
        "count": 3,
        "error-details": {
            "InsufficientInstanceCapacity": {
                "count": 2,
                "nodes": [{"name": "q-dy-nodes-1"}, {"name": "q-dy-nodes-2"}],
            },
            "MaxSpotInstanceCountExceeded": {"count": 1, "nodes": [{"name": "q-dy-nodes-3"}]},
        },
    },
)


def told(given: Json) -> ClusterEvent:
    read = read_line(given, NOW)
    assert isinstance(read, BackendEvent), read
    assert isinstance(read.fact, ClusterEvent)
    assert read.cluster_name == "demo"
    return read.fact


def test_nodes_that_ec2_did_not_give_are_told_with_its_codes() -> None:
    fact = told(NO_CAPACITY)
    assert fact.description == (
        "3 nodes could not be started (q-dy-nodes-1, q-dy-nodes-2, q-dy-nodes-3): EC2 has no "
        "capacity."
    )
    assert fact.failure_message == "InsufficientInstanceCapacity, MaxSpotInstanceCountExceeded"


def test_the_same_line_is_the_same_fact_and_another_failure_is_another() -> None:
    other = {**NO_CAPACITY, "detail": {"failure-type": "vcpu-limit-failures", "count": 1}}
    assert told(NO_CAPACITY).id == told(NO_CAPACITY).id != told(other).id


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("static-replacement-timeout-error", "they were not up in time"),
        ("dynamic-resume-timeout-error", "they were not up in time"),
        ("other-bootstrap-error", "they ended or broke while they were set up"),
        ("a-newer-one", "a-newer-one"),
    ],
)
def test_protected_mode_is_named_with_its_queue_and_its_cause(kind: str, words: str) -> None:
    nodes = [{"name": "broken-st-nodes-1"}, {"name": "broken-st-nodes-2"}]
    given = {"failure-type": kind, "count": 2, "nodes": nodes}
    fact = told(line("protected-mode-error-count", **given))
    assert fact.description == (
        f"2 nodes failed to boot (broken-st-nodes-1, broken-st-nodes-2): {words}. Ten of these "
        "without a node that boots switch queue 'broken' off (ParallelCluster's protected mode); "
        "other queues still serve."
    )
    assert fact.partitions == ["broken"]


def test_without_names_protected_mode_is_of_some_queue() -> None:
    fact = told(line("protected-mode-error-count", count=1))
    assert "switch queue off (ParallelCluster's protected mode)" in fact.description


def test_no_word_of_protected_mode_is_taken_for_a_lack_of_capacity_or_of_rights() -> None:
    assert classify(PROTECTED_MODE) == Refusal.UNKNOWN


def test_nodes_are_named_up_to_ten() -> None:
    nodes = [{"name": f"q-st-nodes-{number}"} for number in range(12)]
    fact = told(line("node-not-responding-down-count", count=12, nodes=nodes))
    assert "q-st-nodes-9, ...)" in fact.description
    assert "q-st-nodes-10" not in fact.description


@pytest.mark.parametrize("nodes", [2, True, "q-st-nodes-1", {"name": "q-st-nodes-1"}, [7, None]])
def test_a_line_of_another_form_is_told_as_far_as_it_can_be_read(nodes: object) -> None:
    """What raised here came back with its whole batch, and kept the lines beside it."""
    other = {"count": 2, "nodes": nodes, "error-details": {"A": nodes}}
    fact = told({**NO_CAPACITY, "detail": {"failure-type": "ice-failures", **other}})
    assert fact.description == "2 nodes could not be started: EC2 has no capacity."


def test_a_script_that_failed_is_a_failed_lifecycle_of_its_instance() -> None:
    fact = told(line("custom-action-error", node={"name": "q-st-nodes-1"}))
    assert isinstance(fact, LifecycleFailed)
    assert fact.instance_id == "i-019e782246a24d07e"


@pytest.mark.parametrize("kind", TROUBLES)
def test_a_count_of_none_is_no_news(kind: str) -> None:
    assert read_line(line(kind, count=0), NOW) == f"a figure of ParallelCluster ({kind}: 0)"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (line("compute-node-idle-time", count=4), "a figure of ParallelCluster"),
        ({}, "malformed"),
        ({**NO_CAPACITY, "detail": []}, "malformed"),
        ({**NO_CAPACITY, "cluster-name": None}, "malformed"),
    ],
)
def test_a_line_that_says_no_trouble_is_dropped(given: Json, why: str) -> None:
    assert why in str(read_line(given, NOW))
