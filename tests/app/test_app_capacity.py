"""AWS has no capacity: the ways of the spec are tried in order, never two at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.memory import Died
from tests.support.memory_lustre import NETWORK
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, run_spec

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.runs.dry_run import DryRun, dry_run_run
from trainyard.app.runs.submit_run import submit_run
from trainyard.domain import errors
from trainyard.domain.states import BackendStatus
from trainyard.outside.networks import Place
from trainyard_contracts.cluster_specs import read_cluster_spec

P5, P4 = "ml.p5.48xlarge", "ml.p4d.24xlarge"
NONE = (
    "We currently do not have sufficient capacity for the requested instance type(s). "
    "Please try again."
)


def with_ways(*ways: dict[str, Any]) -> dict[str, Any]:
    ways = ways or ({"instanceTypes": [P5, P4]}, {"market": "spot"})
    return {"spec": cluster_spec(workers=2, spares=1, capacity=list(ways))}


def submitted(*ways: dict[str, Any], **extra: Any) -> Story:
    story = Story()
    story.submit(cluster=with_ways(*ways), **extra)
    story.rest()
    return story


def alone(story: Story, *ways: dict[str, Any]) -> None:
    """A cluster of no run is asked for."""
    spec = read_cluster_spec(cluster_spec("alone", workers=2, capacity=list(ways)))
    create_cluster(story.world.ports, spec)
    story.rest()


def worker_type(story: Story) -> str:
    (group,) = (one for one in story.cluster.spec.instance_groups if one.role == "worker")
    return group.instance_type


def no_capacity(story: Story) -> None:
    """What is being made now fails for want of capacity, and AWS's answer is noticed."""
    story.world.backend.advance(story.cluster.name, BackendStatus.FAILED, NONE)
    story.pass_time(61)
    story.pass_time(3)


def test_a_run_trains_on_the_second_way_when_aws_has_none_of_the_first() -> None:
    story = submitted()
    assert worker_type(story) == P5
    no_capacity(story)
    assert (worker_type(story), story.cluster.generation) == (P4, 2)
    assert len(story.world.backend.clusters) == 1
    story.ready()
    story.training()
    assert (story.run.status, story.run.cluster_generation) == ("Running", 2)
    story.end()
    assert story.run.status == "Succeeded"
    assert story.cluster.status == "Deleted"
    for line in (
        f"Try 1 for capacity: {P5}, on demand",
        f"AWS has no capacity for try 1 ({P5}, on demand). {NONE.rstrip('.')}.",
        f"Try 2 for capacity: {P4}, on demand",
    ):
        assert line in story.said
    assert story.world.backend.beside == {}


def test_a_refusal_of_the_request_itself_leads_to_the_next_way() -> None:
    story = Story()
    story.world.backend.refuse["create"] = errors.NoCapacity(NONE)
    story.submit(cluster=with_ways())
    story.rest()
    assert story.cluster.generation > 1
    del story.world.backend.refuse["create"]
    story.pass_time(76)
    story.ready()
    story.training()
    assert story.run.status == "Running"


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (errors.BackendRejected("ResourceLimitExceeded: 0 Instances"), "backend-rejected"),
        (errors.ClusterNameTaken("not ours"), "cluster-failed"),
    ],
)
def test_what_only_a_person_can_mend_stops_at_once(
    refusal: errors.TrainyardError, code: str
) -> None:
    story = Story()
    story.world.backend.refuse["create"] = refusal
    story.submit(cluster=with_ways())
    story.rest()
    assert (story.run.status, story.cluster.generation) == ("Failed", 1)
    assert story.run.problem is not None
    assert story.run.problem.code == code


def test_the_ways_come_again_after_a_pause_until_the_deadline_and_then_all_is_said() -> None:
    story = submitted(limits={"clusterDeadlineSeconds": 600})
    while story.run.outcome is None:
        if story.cluster.name in story.world.backend.clusters:
            no_capacity(story)
        else:
            story.pass_time(30)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "no-capacity"
    for words in ("tries found capacity", P5, P4, "ml.m5.large, spot"):
        assert words in story.run.problem.detail
    assert story.cluster.tries[-1].number > 3
    assert story.world.backend.clusters == {}
    assert story.world.backend.beside == {}
    assert story.machines.running == []


@pytest.mark.parametrize("when", ["in a try", "between two"])
def test_a_cancelled_run_makes_no_further_try(when: str) -> None:
    story = submitted()
    if when == "between two":
        story.world.backend.deleting_takes = 10
        story.world.backend.advance(story.cluster.name, BackendStatus.FAILED, NONE)
        story.pass_time(61)
        assert story.cluster.status == "Deleting"
    story.cancel()
    for _ in range(20):
        story.pass_time(5)
    assert story.run.status == "Cancelled"
    assert (story.cluster.status, story.cluster.generation) == ("Deleted", 1)
    assert story.world.backend.clusters == {}


def test_a_cluster_of_no_run_is_tried_too_and_a_deletion_ends_that() -> None:
    story = Story()
    alone(story, *with_ways()["spec"]["capacity"])
    story.world.backend.advance("alone", BackendStatus.FAILED, NONE)
    story.pass_time(61)
    story.pass_time(3)
    found = story.world.clusters.stored["alone"]
    assert (found.generation, found.status) == (2, "Creating")
    assert [one.number for one in found.tries] == [1, 2]
    delete_cluster(story.world.ports, "alone")
    story.rest()
    story.pass_time(3)
    gone = story.world.clusters.stored["alone"]
    assert (gone.status, gone.generation) == ("Deleted", 2)


def test_after_a_crash_at_any_write_there_is_one_cluster_and_the_run_trains() -> None:
    for writes in range(1, 60):
        story = submitted()
        story.world.backend.advance(story.cluster.name, BackendStatus.FAILED, NONE)
        story.world.fuse.arm(writes)
        try:
            story.pass_time(61)
            story.pass_time(3)
        except Died:
            pass
        story.world.fuse.arm(None)
        for _ in range(3):
            story.pass_time(61)
            story.sweep()
        assert len(story.world.backend.clusters) == 1, writes
        assert (story.cluster.generation, worker_type(story)) == (2, P4), writes
        story.ready()
        story.training()
        assert story.run.status == "Running", writes
        assert story.run.cluster_generation == 2


def test_a_run_that_names_a_cluster_between_two_tries_waits_for_it() -> None:
    story = Story()
    alone(story, {}, {"market": "spot"})
    story.world.backend.deleting_takes = 3
    story.world.backend.advance("alone", BackendStatus.FAILED, NONE)
    story.pass_time(61)
    assert story.world.clusters.stored["alone"].status == "Deleting"
    story.run_id = submit_run(story.world.ports, run_spec(cluster={"name": "alone"})).id
    for _ in range(3):
        story.pass_time(5)
    story.ready()
    story.training()
    assert story.run.status == "Running"


def test_a_dry_run_shows_every_way_with_its_price() -> None:
    story = Story()
    plan = dry_run_run(story.world.ports, run_spec(cluster=with_ways()))
    assert [one.way for one in plan.ways] == [
        f"{P5}, on demand",
        f"{P4}, on demand",
        "ml.m5.large, spot",
    ]
    assert plan.hourly_usd == plan.ways[0].hourly_usd
    assert plan.request == plan.ways[0].request
    assert {one.backend for one in plan.ways} == {"hyperpod"}


FAR = "subnet-0fffffffffffffff1"


def test_an_entry_in_another_zone_than_the_filesystem_has_to_say_that_it_may() -> None:
    story = Story()
    story.world.networks.elsewhere[FAR] = Place(NETWORK, "us-east-1b")
    network = {
        "subnetIds": ["subnet-0aaaaaaaaaaaaaaaa"],
        "securityGroupIds": ["sg-0aaaaaaaaaaaaaaaa"],
    }

    def planned(**entry: Any) -> DryRun:
        given = cluster_spec(workers=2, network=network, capacity=[{}, entry])
        return dry_run_run(story.world.ports, run_spec(cluster={"spec": given}))

    with pytest.raises(errors.InvalidRequest) as refused:
        planned(subnetIds=[FAR])
    (found,) = refused.value.errors
    assert found.field == "cluster.spec.capacity.1.subnetIds"
    assert "lie in us-east-1b" in found.message
    assert "mayLeaveZone true" in found.message
    moved = planned(subnetIds=[FAR], mayLeaveZone=True)
    assert [one.zones for one in moved.ways] == [["us-east-1a"], ["us-east-1b"]]
