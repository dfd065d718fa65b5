"""An event is recorded once or dropped with a reason; alone it changes no state."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.memory import World
from tests.support.repository import ROOT
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, make_cluster, record_fact, run_spec

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.list_nodes import list_nodes
from trainyard.domain.book import Book
from trainyard.domain.cluster_facts import LifecycleFailed
from trainyard.domain.errors import RetryableError
from trainyard.domain.facts import type_of
from trainyard_contracts import places
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.events import NodeLost, NodeUnhealthy

EVENTS = ROOT / "tests/events"


def training() -> Story:
    story = Story()
    make_cluster(story, "demo-cluster")
    story.submit(run_spec(cluster={"name": "demo-cluster"}))
    story.rest()
    return story


def delivered(story: Story, name: str, **detail: Any) -> tuple[str, str]:
    """An event from tests/events, told about this story's run and cluster."""
    envelope = json.loads((EVENTS / name).read_text())
    known = {
        "runId": story.run_id,
        "clusterArn": story.cluster.arn,
        "clusterName": story.cluster.name,
    }
    for key in set(envelope["detail"]) & set(known):
        envelope["detail"][key] = known[key]
    for key in set(envelope["detail"]) & {"ClusterArn", "ClusterName"}:
        envelope["detail"][key] = known["c" + key[1:]]
    envelope["detail"].update(detail)
    recorded = record_fact(story.world.ports, envelope)
    return recorded.result, recorded.reason


@pytest.mark.parametrize("path", sorted(EVENTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_sample_event_is_recorded_or_dropped_with_a_reason(path: Path) -> None:
    story = training()
    result, reason = delivered(story, path.name)
    expected = "dropped" if path.stem.startswith("bad-") else "recorded"
    assert (result, bool(reason)) == (expected, True), reason


def cluster_event(story: Story, description: str, **more: Any) -> tuple[str, str]:
    inner = {
        "ClusterName": story.cluster.name,
        "ClusterArn": story.cluster.arn,
        "Description": description,
        "EventId": "E1",
        **more,
    }
    envelope = {
        "source": "aws.sagemaker",
        "detail-type": "SageMaker HyperPod Cluster Event",
        "id": description[:40],
    }
    recorded = record_fact(
        story.world.ports,
        {
            **envelope,
            "detail": {"EventDetails": {**inner, "EventDetails": {"EventMetadata": None}}},
        },
    )
    return recorded.result, recorded.reason


FAILED = "Failed to provision EC2 Instance i-1 in instance group workers"


@pytest.mark.parametrize("level", [{"EventLevel": "Error"}, {}])
def test_why_a_node_could_not_be_had_is_asked_for_and_told(level: dict[str, str]) -> None:
    story = training()
    story.world.backend.reasons["E1"] = "We currently do not have sufficient capacity"
    assert cluster_event(story, FAILED, **level)[0] == "recorded"
    assert f"AWS: {FAILED}: We currently do not have sufficient capacity" in story.said


def test_an_event_whose_reason_cannot_be_had_keeps_its_description() -> None:
    story = training()
    story.world.backend.refuse["event_reason"] = RetryableError("throttled")
    assert cluster_event(story, FAILED, EventLevel="Error")[0] == "recorded"
    assert f"AWS: {FAILED}" in story.said


def test_only_what_is_informational_is_dropped_and_never_a_failed_lifecycle_script() -> None:
    story = training()
    assert (
        cluster_event(story, "EC2 Instance i-1 successfully provisioned", EventLevel="Info")[0]
        == "dropped"
    )
    broken = "Instance lifecycle script execution for EC2 Instance i-1 has failed"
    assert cluster_event(story, broken)[0] == "recorded"
    facts = story.world.clusters.facts(story.cluster.name)
    assert any(isinstance(fact, LifecycleFailed) for fact in facts)


HALF_A_PAIR = "\ud800"
LATE, EARLY = "9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00+14:00"


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("attempt-stepped.json", {"at": LATE}),
        ("attempt-stepped.json", {"at": EARLY, "steppedAt": LATE}),
        ("cluster-heartbeat.json", {"at": "9999-12-30T00:00:00Z"}),
        ("cluster-heartbeat.json", {"at": EARLY}),
        ("checkpoint-committed.json", {"bytes": 10**400}),
        ("export-finished.json", {"bytes": 2**63}),
        ("attempt-ended.json", {"logTail": HALF_A_PAIR}),
        ("nodes-changed.json", {"partitions": {HALF_A_PAIR: 1}}),
        ("attempt-ended.json", {"runId": "r" * 3000}),
    ],
)
def test_an_event_that_nobody_could_store_is_dropped(name: str, detail: dict[str, Any]) -> None:
    result, reason = delivered(training(), name, **detail)
    assert (result, reason.split(":")[0]) == ("dropped", "malformed")


def test_an_event_of_a_clock_that_was_never_set_is_recorded() -> None:
    assert delivered(training(), "attempt-stepped.json", at="1970-01-01T00:00:07Z")[0] == "recorded"


def test_an_aws_event_that_nobody_could_store_is_dropped() -> None:
    said = cluster_event(training(), f"Failed: {HALF_A_PAIR}", EventLevel="Error")
    assert said == ("dropped", "malformed: id, description")


@pytest.mark.parametrize("name", [HALF_A_PAIR, "c" * 3000, "a b"])
def test_an_aws_event_of_what_no_cluster_can_be_called_is_dropped(name: str) -> None:
    said = cluster_event(training(), FAILED, EventLevel="Error", ClusterName=name)
    assert said == ("dropped", "malformed: the cluster's name")


def test_a_duplicate_is_one_fact_and_one_line() -> None:
    story = training()
    delivered(story, "checkpoint-committed.json")
    delivered(story, "checkpoint-committed.json")
    assert len(story.world.runs.checkpoints(story.run_id, limit=10, token=None).items) == 1
    assert story.said.count("is committed and verified") == 1


def listed(story: Story) -> list[tuple[int, str]]:
    return [
        (item.step, item.status)
        for item in story.world.runs.checkpoints(story.run_id, limit=10, token=None).items
    ]


def test_a_pruned_checkpoint_is_listed_as_such_whenever_and_however_often_it_is_told() -> None:
    story = training()
    lines = len(story.said.splitlines())
    for name in (
        "checkpoint-pruned.json",
        "checkpoint-committed.json",
        "checkpoint-pruned.json",
        "checkpoint-committed.json",
    ):
        assert delivered(story, name, step=40, path="checkpoints/step-000000000040-attempt-1") == (
            "recorded",
            "checkpoint of the run",
        )
    assert listed(story) == [(40, "pruned")]
    assert len(story.said.splitlines()) == lines + 1, "that an old one made room is no news"
    assert [
        fact
        for fact in story.world.runs.facts(story.run_id)
        if type_of(fact).startswith("Checkpoint")
    ] == []


def test_checkpoints_that_were_not_brought_to_a_new_filesystem_are_gone_however_often_told() -> (
    None
):
    story = training()
    for step in (20, 30, 40):
        story.checkpoint(step)
    story.end("failed", errorKind="signal", signal=9)
    story.training()
    story.checkpoint(50)
    told = {"attempt": 2, "step": 40, "checkpoints": 1}
    delivered(story, "run-restored.json", **told, brought=None)
    assert [status for _, status in listed(story)] == ["whole"] * 4, "an older agent names none"
    brought = ["checkpoints/step-000000000040-attempt-1"]
    for _ in range(2):
        delivered(story, "run-restored.json", **told, brought=brought)
    assert listed(story) == [(50, "whole"), (40, "whole"), (30, "pruned"), (20, "pruned")]


def test_what_became_of_checkpoints_is_listed_also_when_it_is_told_after_the_runs_end() -> None:
    story = training()
    story.checkpoint(20)
    story.end()
    delivered(story, "checkpoint-committed.json", step=40)
    delivered(story, "checkpoint-pruned.json", step=20)
    assert listed(story) == [(40, "whole"), (20, "pruned")]
    assert story.run.status == "Succeeded"
    assert story.machines.running == []


@pytest.mark.parametrize("field", ["at", "steppedAt"])
def test_a_time_without_a_zone_is_malformed_and_not_tried_again(field: str) -> None:
    story = training()
    assert delivered(story, "attempt-stepped.json", **{field: "2026-11-21T00:00:00"}) == (
        "dropped",
        f"malformed: {field}",
    )


def test_an_event_of_another_cluster_of_the_same_name_is_dropped() -> None:
    story = training()
    arn = "arn:aws:sagemaker:us-east-1:123456789012:cluster/someoneelses"
    result, reason = delivered(story, "attempt-ended.json", clusterArn=arn)
    assert (result, reason) == ("dropped", "it is from another cluster of this name")
    assert story.run.outcome is None


def forged(story: Story, key_of: str, **changed: Any) -> tuple[str, str]:
    """The end of the run's attempt, signed with the key of the cluster `key_of`, then changed."""
    from trainyard.app.facts.record_fact import record_fact as record
    from trainyard_contracts import signatures

    envelope = json.loads((EVENTS / "attempt-ended.json").read_text())
    detail = {
        **envelope["detail"],
        "runId": story.run_id,
        "clusterArn": story.cluster.arn,
        "clusterName": story.cluster.name,
    }
    key = story.world.secrets.read(
        places.agent_key_secret(story.world.ports.config.secret_prefix, key_of)
    )
    if key is not None:
        detail = json.loads(signatures.signed("AttemptEnded", json.dumps(detail), key.encode()))
    recorded = record(story.world.ports, {**envelope, "detail": {**detail, **changed}})
    return recorded.result, recorded.reason


def test_a_node_of_another_cluster_cannot_end_a_run() -> None:
    story = training()
    make_cluster(story, "attacker")
    assert forged(story, "attacker") == ("dropped", "its signature is not the cluster's")
    assert forged(story, "nobody") == ("dropped", "it is not signed")
    assert story.run.outcome is None


@pytest.mark.parametrize(
    "changed",
    [
        {"outcome": "succeeded"},
        {"id": "01JD0000000000000000000007"},
        {"at": "2026-11-20T12:00:01Z"},
        {"more": 1},
        {"signature": ""},
    ],
)
def test_a_signed_event_holds_exactly_what_was_signed(changed: dict[str, Any]) -> None:
    story = training()
    assert forged(story, story.cluster.name, **changed)[0] == "dropped"
    assert forged(story, story.cluster.name)[0] == "recorded"


def test_an_event_of_the_cluster_that_had_this_name_before_is_dropped() -> None:
    story = training()
    old = story.world.secrets.read(
        name := places.agent_key_secret(story.world.ports.config.secret_prefix, story.cluster.name)
    )
    story.world.secrets.delete(name)
    assert forged(story, "nobody", signature="0" * 64) == ("dropped", "its cluster has no key")
    story.world.secrets.ensure(name)
    assert story.world.secrets.read(name) != old
    assert forged(story, story.cluster.name)[0] == "recorded"


def test_a_cluster_that_was_made_before_agents_signed_goes_on() -> None:
    story = training()
    story.world.clusters.stored[story.cluster.name] = story.cluster.model_copy(
        update={"signs_events": False}
    )
    assert forged(story, "nobody")[0] == "recorded"


def test_an_event_of_an_unknown_run_is_dropped() -> None:
    story = training()
    assert delivered(story, "attempt-ended.json", runId="run-00000000000000000000000000") == (
        "dropped",
        "no such run",
    )


def test_an_event_of_a_run_on_another_cluster_is_dropped() -> None:
    story = training()
    make_cluster(story, "other")
    other = story.submit(run_spec(cluster={"name": "other"}))
    story.rest()
    assert delivered(story, "attempt-ended.json", runId=other.id) == (
        "dropped",
        "the run is on another cluster",
    )


def test_an_event_of_an_ended_run_is_dropped() -> None:
    story = training()
    story.end()
    assert delivered(story, "attempt-ended.json") == ("dropped", "the run is Succeeded")


@pytest.mark.parametrize(
    "envelope",
    [
        {},
        {"source": "aws.ec2"},
        {"source": "trainyard.agent"},
        {"source": "aws.sagemaker", "detail": None},
    ],
)
def test_garbage_is_dropped(envelope: dict[str, Any]) -> None:
    recorded = record_fact(training().world.ports, envelope)
    assert recorded.result == "dropped"
    assert recorded.reason


def test_a_clock_that_runs_ahead_does_not_put_facts_into_the_future() -> None:
    story = training()
    delivered(story, "node-lost.json", at="2099-01-01T00:00:00Z")
    assert all(fact.at <= story.world.clock.now() for fact in story.world.runs.facts(story.run_id))


def test_heartbeats_are_kept_and_shown() -> None:
    from trainyard.app.runs.read_metrics import read_metrics
    from trainyard.app.runs.show_run import show_run

    story = training()
    beat = json.loads((EVENTS / "cluster-heartbeat.json").read_text())["detail"]
    runs = [{**beat["runs"][0], "runId": story.run_id}]
    delivered(story, "cluster-heartbeat.json", at=story.at, runs=runs)
    _, sample = show_run(story.world.ports, story.run_id)
    assert sample is not None
    assert sample.step == 42
    metrics = read_metrics(story.world.ports, story.run_id)
    assert [sample.cpu_percent for sample in metrics.nodes["ip-127-0-1-12"]] == [55.5]
    assert [sample.loss for _, sample in metrics.run] == [0.25]
    worker = next(
        node
        for node in list_nodes(story.world.ports, story.cluster.name)
        if node.name == "ip-127-0-1-12"
    )
    assert (worker.agent, worker.scheduler) == ("linked", "alloc")
    assert story.cluster.last_heartbeat_at == story.world.clock.now()


def large_cluster(world: World) -> tuple[str, list[str]]:
    """A Ready cluster of 700 workers: its ARN, and its nodes' instance ids."""
    spec = read_cluster_spec(cluster_spec("large", workers=700, spares=1))
    arn = world.backend.create(create_cluster(world.ports, spec))
    world.clusters.put(
        world.clusters.get("large").model_copy(update={"arn": arn, "status": "Ready"})
    )
    world.secrets.ensure(places.agent_key_secret(world.ports.config.secret_prefix, "large"))
    return arn, [node.instance_id for node in world.backend.node_lists["large"]]


def one_of_five_heartbeats(world: World, arn: str, ids: list[str], cpu_percent: int) -> None:
    at = world.clock.now().isoformat()
    samples = [
        {"node": f"n-{one}", "instanceId": one, "role": "worker", "at": at}
        | {"cpuPercent": cpu_percent}
        for one in ids
    ]
    detail = {
        "id": world.ids.ulid(),
        "at": at,
        "clusterName": "large",
        "clusterArn": arn,
        "nodes": samples,
        "parts": 5,
    }
    envelope = {"source": "trainyard.agent", "detail-type": "ClusterHeartbeat", "id": "e"}
    record_fact(world.ports, {**envelope, "detail": detail})


def test_every_node_has_its_sample_though_one_heartbeat_does_not_hold_a_large_cluster() -> None:
    world = World()
    arn, ids = large_cluster(world)
    for round_number in range(3):
        for begin in range(0, len(ids), 150):
            world.clock.tick(1)
            one_of_five_heartbeats(world, arn, ids[begin : begin + 150], round_number)
    nodes = list_nodes(world.ports, "large")
    assert {node.sample["cpuPercent"] for node in nodes if node.sample} == {2}
    assert all(node.sample for node in nodes)


@pytest.mark.parametrize(
    "wrong", [timedelta(hours=-1), timedelta(hours=1)], ids=["an hour behind", "an hour ahead"]
)
def test_a_controllers_wrong_clock_loses_no_node_in_silence_and_dates_no_recovery(
    wrong: timedelta,
) -> None:
    story = Story()
    story.submit()
    story.ready()
    story.wrong_by = wrong
    story.training()
    story.lose("ip-127-0-1-12")
    assert [attempt.exclude for attempt in story.run.attempts] == [[], ["ip-127-0-1-12"]]
    story.training("ip-127-0-1-13", "ip-127-0-1-14")
    assert story.world.backend.replaced == ["i-00000012"]
    assert "0.0 s after the fault was noticed" in story.said
    [lost] = Book(story.world.runs.facts(story.run_id)).of(NodeLost)
    assert story.cluster.created_at <= lost.at <= story.world.clock.now()
    assert lost.reported_at is not None
    assert abs(lost.reported_at - lost.at - wrong) < timedelta(seconds=1), (
        "the time that the node gave is kept as evidence"
    )


def test_a_right_clock_is_left_alone() -> None:
    story = training()
    at = story.world.clock.now()
    story.world.clock.tick(1800)  # the outbox waited for the bus
    assert delivered(story, "node-lost.json", at=at.isoformat())[0] == "recorded"
    [lost] = Book(story.world.runs.facts(story.run_id)).of(NodeLost)
    assert (lost.at, lost.reported_at) == (at, None)


@pytest.mark.parametrize(("of_this_run", "attempt"), [(True, 1), (False, None)])
def test_what_is_told_of_a_node_names_an_attempt_to_the_run_only_whose_it_is(
    of_this_run: bool, attempt: int | None
) -> None:
    story = training()
    run_id = story.run_id if of_this_run else "run-01j0000000000000000000000z"
    told = 1 if of_this_run else 9
    assert delivered(story, "node-unhealthy.json", runId=run_id, attempt=told)[0] == "recorded"
    [fact] = Book(story.world.runs.facts(story.run_id)).of(NodeUnhealthy)
    assert fact.attempt == attempt


@pytest.mark.parametrize(
    "name",
    [
        "attempt-started",
        "attempt-stepped",
        "attempt-ended",
        "checkpoint-committed",
        "checkpoint-rejected",
    ],
)
def test_what_is_told_of_an_attempt_that_never_was_is_dropped(name: str) -> None:
    story = training()
    before = story.said
    assert delivered(story, f"{name}.json", attempt=7) == ("dropped", "the run has no attempt 7")
    assert story.said == before
    assert listed(story) == []
