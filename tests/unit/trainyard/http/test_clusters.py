"""Clusters and their nodes over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import MemoryChanges, World

from trainyard.domain.records import ClusterNode


def cluster() -> dict[str, Any]:
    body: dict[str, Any] = spec()["cluster"]["spec"]
    return body


def test_a_created_cluster_is_accepted_with_its_location(client: Client) -> None:
    answer = client.post("/v1/clusters", cluster())
    assert answer.status == 202
    assert answer.headers["Location"] == "/v1/clusters/demo"
    assert client.get("/v1/clusters/demo").json["name"] == "demo"
    assert [found["name"] for found in client.get("/v1/clusters").json["clusters"]] == ["demo"]
    assert "version" not in answer.json


def test_a_cluster_of_a_taken_name_is_refused(client: Client) -> None:
    client.post("/v1/clusters", cluster())
    is_a_problem(client.post("/v1/clusters", cluster()), 409, "cluster-exists")


def test_a_repeated_creation_with_its_key_is_the_same_cluster(client: Client, world: World) -> None:
    key = {"Idempotency-Key": "k"}
    first = client.post("/v1/clusters", cluster(), headers=key)
    again = client.post("/v1/clusters", cluster(), headers=key)
    assert (again.status, again.json) == (202, first.json)
    assert "idempotencyKey" not in again.json
    assert len([made for made in world.executions.started if made[0] == "cluster"]) == 1
    is_a_problem(
        client.post("/v1/clusters", cluster() | {"idleLimitSeconds": 60}, headers=key),
        409,
        "idempotency-conflict",
    )
    is_a_problem(
        client.post("/v1/clusters", cluster(), headers={"Idempotency-Key": "other"}),
        409,
        "cluster-exists",
    )


def test_a_creation_repeated_late_does_not_bring_a_deleted_cluster_back(
    client: Client, world: World
) -> None:
    key = {"Idempotency-Key": "k"}
    client.post("/v1/clusters", cluster(), headers=key)
    world.clusters.put(world.clusters.get("demo").model_copy(update={"status": "Deleted"}))
    assert client.post("/v1/clusters", cluster(), headers=key).json["status"] == "Deleted"
    assert client.post("/v1/clusters", cluster()).json["status"] == "Pending"


def test_a_dry_run_shows_the_exact_request_and_creates_nothing(client: Client) -> None:
    plan = client.post("/v1/clusters", cluster(), query={"dryrun": "true"}).json
    assert plan["operation"]
    assert plan["request"]
    assert client.get("/v1/clusters").json["clusters"] == []


def test_a_cluster_without_a_controller_is_refused_by_field(client: Client) -> None:
    body = cluster()
    body["instanceGroups"] = body["instanceGroups"][1:] * 2
    answer = client.post("/v1/clusters", body)
    is_a_problem(answer, 400, "invalid-request")
    assert "instanceGroups" in answer.fields


def test_a_cluster_that_a_run_uses_is_not_deleted(client: Client, world: World) -> None:
    client.post("/v1/clusters", cluster())
    body = spec() | {"cluster": {"name": "demo"}}
    assert client.post("/v1/runs", body).status == 202
    is_a_problem(client.send("DELETE", "/v1/clusters/demo"), 409, "cluster-in-use")


def test_force_is_not_advised_where_it_does_not_help(client: Client) -> None:
    client.post("/v1/clusters", cluster())
    run = client.post("/v1/runs", spec() | {"cluster": {"name": "demo"}}).json["id"]
    for query in ({}, {"force": "true"}):
        answer = client.send("DELETE", "/v1/clusters/demo", query=query)
        is_a_problem(answer, 409, "cluster-in-use")
        assert answer.json["nextStep"] == (
            f"Wait until it ends, or cancel it: trainyard run cancel {run}."
        )


def test_an_idle_cluster_is_deleted(client: Client, world: World) -> None:
    client.post("/v1/clusters", cluster())
    assert client.send("DELETE", "/v1/clusters/demo").status == 202
    assert world.executions.status("teardown", "demo-1") == "RUNNING"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/clusters/none"),
        ("DELETE", "/v1/clusters/none"),
        ("GET", "/v1/clusters/none/nodes"),
        ("POST", "/v1/clusters/none/nodes/i-0123456789abcdef0:reboot"),
        ("GET", "/v1/clusters/under_score"),
    ],
)
def test_an_unknown_cluster_is_not_found(client: Client, method: str, path: str) -> None:
    is_a_problem(client.send(method, path), 404, "cluster-not-found")


@pytest.mark.parametrize("verb", ["replace", "reboot"])
def test_a_node_that_cannot_exist_is_not_found(client: Client, verb: str) -> None:
    client.post("/v1/clusters", cluster())
    is_a_problem(client.post(f"/v1/clusters/demo/nodes/worker-1:{verb}"), 404, "node-not-found")


@pytest.mark.parametrize("verb", ["replace", "reboot"])
def test_nodes_of_a_cluster_that_is_not_there_yet_cannot_be_changed(
    client: Client, verb: str
) -> None:
    client.post("/v1/clusters", cluster())
    is_a_problem(
        client.post(f"/v1/clusters/demo/nodes/i-0123456789abcdef0:{verb}"), 409, "wrong-state"
    )


def test_a_cluster_that_is_not_there_yet_has_no_nodes(client: Client) -> None:
    client.post("/v1/clusters", cluster())
    assert client.get("/v1/clusters/demo/nodes").json == {
        "nodes": [],
        "nextToken": None,
        "samplesLeftOut": False,
    }


def worker(instance_id: str) -> ClusterNode:
    return ClusterNode(
        instance_id=instance_id,
        name="",
        group="worker",
        role="worker",
        instance_type="ml.c5.xlarge",
        status="Running",
    )


def test_nodes_come_in_pages_and_one_that_goes_moves_no_other(client: Client, world: World) -> None:
    client.post("/v1/clusters", cluster())
    world.clusters.put(world.clusters.get("demo").changed(arn="arn:aws:demo", status="Ready"))
    ids = [f"i-{number:017x}" for number in range(7)]
    world.backend.node_lists["demo"] = [worker(one) for one in reversed(ids)]
    first = client.get("/v1/clusters/demo/nodes", query={"limit": 3}).json
    assert [node["instanceId"] for node in first["nodes"]] == ids[:3]
    left = [worker(one) for one in ids if one not in (ids[0], ids[2])]
    world.backend.node_lists["demo"] = left
    query = {"limit": 3, "nextToken": first["nextToken"]}
    second = client.get("/v1/clusters/demo/nodes", query=query).json
    assert [node["instanceId"] for node in second["nodes"]] == ids[3:6]
    third = client.get(
        "/v1/clusters/demo/nodes", query={"limit": 3, "nextToken": second["nextToken"]}
    ).json
    assert ([node["instanceId"] for node in third["nodes"]], third["nextToken"]) == (ids[6:], None)


@pytest.mark.parametrize("token", ["other/worker/i-1", "demo", "demo/worker", "x"])
def test_a_token_of_another_clusters_nodes_is_refused(client: Client, token: str) -> None:
    client.post("/v1/clusters", cluster())
    answer = client.get("/v1/clusters/demo/nodes", query={"nextToken": token})
    is_a_problem(answer, 400, "invalid-page-token")
    assert answer.fields["nextToken"]


def test_a_cluster_without_a_network_is_refused_unless_the_stack_names_one(
    client: Client, world: World
) -> None:
    body = cluster()
    del body["network"]
    for query in ({}, {"dryrun": "true"}):
        answer = client.post("/v1/clusters", body, query=query)
        is_a_problem(answer, 400, "invalid-request")
        assert list(answer.fields) == ["network"]
    world.ports = replace(world.ports, config=replace(world.ports.config, has_network=True))
    assert client.post("/v1/clusters", body).status == 202


def test_a_mount_of_the_stacks_own_bucket_is_refused_with_its_field(client: Client) -> None:
    mounts = [
        {"bucket": "my-data", "mountPath": "/data"},
        {"bucket": "trainyard-data", "mountPath": "/runs"},
    ]
    run = {
        "name": "r",
        "cluster": {"spec": {**cluster(), "s3Mounts": mounts}},
        "job": {"nodes": 1, "module": "train"},
    }
    for path, body, field in (
        ("/v1/clusters", {**cluster(), "s3Mounts": mounts}, ""),
        ("/v1/runs", run, "cluster.spec."),
    ):
        for query in ({}, {"dryrun": "true"}):
            answer = client.post(path, body, query=query)
            is_a_problem(answer, 400, "invalid-request")
            assert list(answer.fields) == [f"{field}s3Mounts.1.bucket"]
    assert client.post("/v1/clusters", {**cluster(), "s3Mounts": mounts[:1]}).status == 202


def test_a_region_is_the_stacks_or_refused_by_its_field(client: Client, world: World) -> None:
    answer = client.post("/v1/clusters", {**cluster(), "region": "eu-central-1"})
    is_a_problem(answer, 400, "invalid-request")
    assert "in us-east-1 only" in answer.fields["region"]
    answer = client.post("/v1/clusters", {**cluster(), "region": "Frankfurt"})
    is_a_problem(answer, 400, "invalid-request")
    assert "region" in answer.fields
    assert world.clusters.stored == {}
    assert client.post("/v1/clusters", {**cluster(), "region": "us-east-1"}).status == 202
    own = spec()
    own["cluster"]["spec"]["region"] = "eu-central-1"
    answer = client.post("/v1/runs", own, query={"dryrun": "true"})
    is_a_problem(answer, 400, "invalid-request")
    assert "eu-central-1" in answer.fields["cluster.spec.region"]


def test_a_bucket_that_is_not_there_is_a_warning_by_its_field(client: Client, world: World) -> None:
    mounts = [
        {"bucket": "my-data", "mountPath": "/data"},
        {"bucket": "of-others", "mountPath": "/others"},
        {"bucket": "my-dta", "mountPath": "/more"},
    ]
    world.sources.known = {"s3://my-data/": "empty", "s3://my-dta/": "no-bucket"}
    body = {**cluster(), "s3Mounts": mounts, "jobInputs": ["s3://my-dta/corpus/"]}
    words = "s3Mounts.2.bucket: S3 has no bucket 'my-dta'"
    planned = client.post("/v1/clusters", body, query={"dryrun": "true"}).json
    assert any(one.startswith(words) for one in planned["warnings"])
    made = client.post("/v1/clusters", body).json
    assert [one.split(";")[0] for one in made["warnings"]] == [words]
    run = spec()
    run["cluster"]["spec"] = body
    submitted = client.post("/v1/runs", run).json
    assert any(one.startswith(words) for one in submitted["warnings"])


def test_inputs_from_the_stacks_own_bucket_are_refused(client: Client) -> None:
    """Or nodes would read the runs of every other cluster."""
    inputs = ["s3://sagemaker-texts/v1/", "s3://trainyard-data/clusters/"]
    answer = client.post("/v1/clusters", {**cluster(), "jobInputs": inputs})
    is_a_problem(answer, 400, "invalid-request")
    assert "Trainyard's own bucket" in answer.fields["jobInputs.1"]


def test_a_cluster_of_a_backend_that_changes_none_is_not_updated_stopped_or_started(
    client: Client, world: World
) -> None:
    client.post("/v1/clusters", cluster())
    for answer in (
        client.send("PUT", "/v1/clusters/demo", body=cluster()),
        client.send("PUT", "/v1/clusters/demo", body=cluster(), query={"dryrun": "true"}),
        client.post("/v1/clusters/demo:stop"),
        client.post("/v1/clusters/demo:start"),
    ):
        is_a_problem(answer, 409, "wrong-state")
        assert "trainyard cluster create" in answer.json["nextStep"]


def test_an_update_is_accepted_with_its_location_and_shown(client: Client, world: World) -> None:
    world.backend.changes = MemoryChanges()
    client.post("/v1/clusters", cluster())
    world.clusters.put(world.clusters.get("demo").model_copy(update={"status": "Ready"}))
    plan = client.send("PUT", "/v1/clusters/demo", body=cluster(), query={"dryrun": "true"})
    assert (plan.status, plan.json["operation"]) == (200, "UpdateCluster")
    fixed = client.send("PUT", "/v1/clusters/demo", body=cluster() | {"tags": {"a": "b"}})
    is_a_problem(fixed, 400, "invalid-request")
    assert "tags" in fixed.fields
    answer = client.post("/v1/clusters/demo:stop", query={"force": "true"})
    assert (answer.status, answer.headers["Location"]) == (202, "/v1/clusters/demo")
    change = client.get("/v1/clusters/demo").json["change"]
    assert (change["state"], change["fleet"], change["forced"]) == ("waiting", "stopped", True)
    assert client.post("/v1/clusters/none:start").status == 404


def test_a_cluster_is_kept_and_who_did_it_is_in_the_audit_list(
    client: Client, world: World
) -> None:
    client.post("/v1/clusters", cluster())
    world.clock.tick(600)
    assert client.post("/v1/clusters/demo:keep", query={"reason": "tomorrow"}).status == 200
    assert world.clusters.get("demo").last_used_at == world.clock.now()
    asked = {"what": "cluster.keep", "since": "2026-01-01T00:00:00Z"}
    (entry,) = client.get("/v1/audit", query=asked).json["entries"]
    assert (entry["outcome"], entry["reason"]) == ("done", "tomorrow")
    is_a_problem(client.post("/v1/clusters/none:keep"), 404, "cluster-not-found")
