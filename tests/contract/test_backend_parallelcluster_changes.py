"""Changes of a cluster that is there, against answers in the words of ParallelCluster's own API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract.test_backend_hyperpod import MemoryBlobs
from tests.contract.test_backend_parallelcluster import CLUSTER, TAGS
from tests.support.parallelcluster_api import ARN, Answers, description, gone, summary
from tests.support.parallelcluster_specs import SETTINGS, spec

from trainyard.backends.parallelcluster.answers import UpdateError
from trainyard.backends.parallelcluster.changes import ClusterChanges
from trainyard.backends.parallelcluster.fields import field_of_update
from trainyard.backends.parallelcluster.refusals import Invalid
from trainyard.domain import errors
from trainyard.outside.changes import Changes
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.parallelcluster import ParallelClusterSpec

PATH = "/clusters/demo"
FLEET = f"{PATH}/computefleet"
STOP = "All compute nodes must be stopped. Stop the compute fleet with the pcluster command"
QUEUE = "Scheduling.SlurmQueues[workers]"
WANTED = read_cluster_spec(spec(queue={"max": 9}))
Json = dict[str, Any]


class World:
    def __init__(self) -> None:
        self.answers, self.blobs = Answers(), MemoryBlobs()
        self.changes: Changes = ClusterChanges(lambda: self.answers.api(), self.blobs, SETTINGS)

    def refuses(self, *updates: Json) -> None:
        body = {"message": "Update failure", "changeSet": [], "updateValidationErrors": [*updates]}
        self.answers.give("PUT", PATH, body, 400)

    def files(self) -> Json:
        (body,) = self.blobs.objects.values()
        return dict(json.loads(body))


@pytest.fixture
def world() -> World:
    return World()


def update(parameter: str, message: str) -> Json:
    told = {"parameter": parameter, "currentValue": "1", "requestedValue": "2"}
    return {**told, "message": message}


def test_a_dry_run_that_succeeds_is_a_plan_of_the_exact_request(world: World) -> None:
    said = {"message": "Request would have succeeded, but DryRun flag is set.", "changeSet": []}
    world.answers.give("PUT", PATH, said, 412)
    plan = world.changes.plan(CLUSTER, WANTED)
    assert (plan.stops_fleet, plan.nothing) == (False, False)
    ((_, _, query, body),) = world.answers.asked
    assert query["dryrun"] == "true"
    assert json.loads(body["clusterConfiguration"]) == plan.request.request["clusterConfiguration"]
    assert plan.request.operation == "UpdateCluster"
    assert world.blobs.objects == {}, "a dry run writes nothing"


def test_name_tags_and_bundle_are_those_of_the_record_as_it_is(world: World) -> None:
    world.answers.give("PUT", PATH, {"message": "-"}, 412)
    made = world.changes.plan(CLUSTER, WANTED).request.request["clusterConfiguration"]
    assert {tag["Key"]: tag["Value"] for tag in made["Tags"]} == TAGS
    (step,) = made["HeadNode"]["CustomActions"]["OnNodeUpdated"]["Sequence"]
    assert step["Args"][1:] == ["controller", "updated"]
    assert step["Args"][0].endswith("clusters/demo/1/lifecycle")


def test_what_only_a_running_fleet_hinders_stops_the_fleet_and_says_so(world: World) -> None:
    world.refuses(
        update(f"{QUEUE}.ComputeResources[nodes].MaxCount", STOP),
        update(f"{QUEUE}.ComputeResources[nodes].Instances", STOP),
    )
    plan = world.changes.plan(CLUSTER, WANTED)
    assert plan.stops_fleet
    assert any(words.endswith(STOP) for words in plan.request.warnings)


def test_any_other_refusal_is_parallelclusters_own_reason_at_our_field(world: World) -> None:
    never = "Update actions are not currently supported for the 'InstanceType' parameter"
    world.refuses(
        update("HeadNode.InstanceType", never),
        update(f"{QUEUE}.ComputeResources[nodes].MaxCount", STOP),
        update("Scheduling.SlurmQueues", STOP),
    )
    with pytest.raises(Invalid) as refused:
        world.changes.plan(CLUSTER, WANTED)
    assert [(one.field, one.message) for one in refused.value.errors] == [
        ("headNode.instanceType", never),
        ("queues.0.max", STOP),
        ("queues", STOP),
    ]
    assert never in refused.value.detail


def test_a_change_of_trainyards_own_fields_is_none_of_parallelclusters(world: World) -> None:
    none = {"message": "Bad Request: No changes found in your cluster configuration."}
    world.answers.give("PUT", PATH, none, 400)
    assert world.changes.plan(CLUSTER, CLUSTER.spec).nothing
    assert world.changes.apply(CLUSTER, CLUSTER.spec) is False


def test_the_nodes_files_are_there_before_the_update_begins(world: World) -> None:
    two = spec()
    two["queues"].append({**two["queues"][0], "name": "more", "min": 0})
    world.answers.give("PUT", PATH, {"cluster": summary("UPDATE_IN_PROGRESS")}, 202)
    assert world.changes.apply(CLUSTER, read_cluster_spec(two)) is True
    assert [group["name"] for group in world.files()["workerGroups"]] == ["workers", "more"]
    world.changes.restore(CLUSTER)
    assert [group["name"] for group in world.files()["workerGroups"]] == ["workers"]


def test_an_update_that_is_under_way_is_a_conflict(world: World) -> None:
    busy = {"message": "Cannot execute update while stack is in UPDATE_IN_PROGRESS status."}
    world.answers.give("PUT", PATH, busy, 409)
    with pytest.raises(errors.ConflictError, match="UPDATE_IN_PROGRESS"):
        world.changes.apply(CLUSTER, WANTED)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("UPDATE_IN_PROGRESS", "changing"),
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "changing"),
        ("UPDATE_COMPLETE", "complete"),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "changing"),
        ("UPDATE_ROLLBACK_COMPLETE", "rolled-back"),
        ("UPDATE_ROLLBACK_FAILED", "failed"),
    ],
)
def test_how_far_it_is_the_stack_says(world: World, status: str, state: str) -> None:
    at = "2026-11-24T10:00:00.000Z"
    found = description(TAGS, fleet="STOPPED") | {
        "cloudFormationStackStatus": status, "lastUpdatedTime": at,
    }  # fmt: skip
    world.answers.give("GET", PATH, found)
    world.answers.give("GET", f"{PATH}/stackevents", {"events": []})
    seen = world.changes.look(CLUSTER)
    assert seen is not None
    assert (seen.state, seen.fleet, seen.updated) == (state, "stopped", at)


def event(at: int, logical: str, status: str, reason: str = "") -> Json:
    return {
        "eventId": str(at),
        "stackId": ARN,
        "stackName": "demo",
        "logicalResourceId": logical,
        "resourceType": "AWS::X::Y",
        "resourceStatus": status,
        "timestamp": f"2026-11-24T10:00:{at:02}.000Z",
        **({"resourceStatusReason": reason} if reason else {}),
    }


def test_an_update_that_was_undone_has_the_first_resource_that_failed_in_it(world: World) -> None:
    undone = description(TAGS) | {"cloudFormationStackStatus": "UPDATE_ROLLBACK_COMPLETE"}
    world.answers.give("GET", PATH, undone)
    newest_first = [
        event(9, "demo", "UPDATE_ROLLBACK_IN_PROGRESS", "The following resource(s) failed"),
        event(8, "Fleet", "UPDATE_FAILED", "Resource update cancelled"),
        event(7, "Queue2", "CREATE_FAILED", "no capacity there"),
        event(6, "demo", "UPDATE_IN_PROGRESS", "User Initiated"),
        event(5, "Old", "UPDATE_FAILED", "of an update long ago"),
    ]
    world.answers.give("GET", f"{PATH}/stackevents", {"events": newest_first})
    seen = world.changes.look(CLUSTER)
    assert seen is not None
    assert seen.reason == "Queue2 (AWS::X::Y): no capacity there"


def test_another_cluster_of_that_name_is_not_this_one(world: World) -> None:
    world.answers.give("GET", PATH, gone(), 404)
    assert world.changes.look(CLUSTER) is None
    world.answers = Answers()
    world.answers.give("GET", PATH, description(TAGS) | {"cloudformationStackArn": "another"})
    assert world.changes.look(CLUSTER) is None


def test_the_fleet_is_asked_for_in_the_apis_two_words(world: World) -> None:
    for status in ("STOP_REQUESTED", "START_REQUESTED"):
        world.answers.give("PATCH", FLEET, {"status": status})
    world.changes.set_fleet(CLUSTER, running=False)
    world.changes.set_fleet(CLUSTER, running=True)
    assert world.answers.calls("PATCH", FLEET) == [
        {"status": "STOP_REQUESTED"}, {"status": "START_REQUESTED"},
    ]  # fmt: skip


def test_every_golden_path_of_a_queue_leads_to_its_field() -> None:
    """A name may hold dots; what is gone is the list's."""
    read = ParallelClusterSpec.model_validate(spec())
    for parameter, field in {
        f"{QUEUE}.CapacityType": "queues.0.capacity",
        f"{QUEUE}.ComputeResources[nodes].Instances": "queues.0.instanceTypes",
        "Scheduling.SlurmQueues[gone].Networking.SubnetIds": "queues",
        "SharedStorage[no.such].MountDir": "sharedStorage",
        "Image.Os": "image.os",
    }.items():
        assert field_of_update(read, UpdateError(parameter=parameter)) == field


def test_sources_are_not_needed_for_it(world: World) -> None:
    """Nodes keep the agent that they have: only what is made of the spec is written."""
    world.changes.restore(CLUSTER)
    assert [key.rpartition("/")[2] for key in world.blobs.objects] == ["cluster.json"]
