"""Clusters that others made, over HTTP."""

from __future__ import annotations

import pytest
from tests.support.adopted import ARN, NAME, MemoryAdoptions, a_node, foreign
from tests.support.http_events import Client, is_a_problem
from tests.support.memory import World

from trainyard.domain.states import BackendStatus
from trainyard.outside.seen_clusters import BackendCluster


@pytest.fixture
def adoptions(world: World) -> MemoryAdoptions:
    made = MemoryAdoptions(foreign())
    world.backend.adoptions = made
    world.backend.clusters[NAME] = BackendCluster(
        "hyperpod", ARN, NAME, BackendStatus.IN_SERVICE, "InService"
    )
    world.backend.node_lists[NAME] = [a_node("i-1")]
    return made


def test_an_adoption_is_accepted_with_its_location(
    client: Client, adoptions: MemoryAdoptions
) -> None:
    answer = client.post("/v1/clusters:adopt", {"name": NAME})
    assert answer.status == 202
    assert answer.headers["Location"] == f"/v1/clusters/{NAME}"
    shown = client.get(f"/v1/clusters/{NAME}").json
    assert shown["adoption"] == {"replaceNodes": False, "nodes": {}, "lacking": None, "left": []}
    assert shown["arn"] == ARN


def test_a_dry_run_answers_with_the_policy_and_adopts_nothing(
    client: Client, adoptions: MemoryAdoptions
) -> None:
    answer = client.post("/v1/clusters:adopt", {"arn": ARN}, query={"dryrun": "true"})
    assert answer.status == 200
    assert answer.json["policy"]["Statement"]
    assert answer.json["spec"]["sharedFilesystem"]["mountPath"] == "/fsx"
    is_a_problem(client.get(f"/v1/clusters/{NAME}"), 404, "cluster-not-found")


def test_adopting_twice_is_a_conflict(client: Client, adoptions: MemoryAdoptions) -> None:
    client.post("/v1/clusters:adopt", {"name": NAME})
    is_a_problem(client.post("/v1/clusters:adopt", {"name": NAME}), 409, "cluster-exists")


def test_what_is_wrong_is_told_by_field(client: Client, adoptions: MemoryAdoptions) -> None:
    answer = client.post("/v1/clusters:adopt", {"name": NAME, "controllerGroup": "none"})
    is_a_problem(answer, 400, "invalid-request")
    assert answer.json["errors"][0]["field"] == "controllerGroup"
    is_a_problem(client.post("/v1/clusters:adopt", {}), 400, "invalid-request")
    adoptions.seen = None
    is_a_problem(client.post("/v1/clusters:adopt", {"name": NAME}), 404, "cluster-not-found")


def test_an_adopted_cluster_is_released_and_never_deleted(
    client: Client, world: World, adoptions: MemoryAdoptions
) -> None:
    client.post("/v1/clusters:adopt", {"name": NAME})
    is_a_problem(client.send("DELETE", f"/v1/clusters/{NAME}"), 409, "wrong-state")
    assert client.post(f"/v1/clusters/{NAME}:release").status == 202
    for stored, shown in (("Deleting", "Releasing"), ("Deleted", "Released")):
        record = world.clusters.get(NAME)
        world.clusters.put(record.model_copy(update={"status": stored}))
        assert client.get(f"/v1/clusters/{NAME}").json["status"] == shown


def test_a_cluster_of_our_own_is_not_released(client: Client) -> None:
    is_a_problem(client.post("/v1/clusters/none:release"), 404, "cluster-not-found")
