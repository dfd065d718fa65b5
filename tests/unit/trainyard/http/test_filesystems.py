"""Filesystems over HTTP."""

from __future__ import annotations

import pytest
from tests.support.filesystem_parts import filesystem_document
from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World

from trainyard.app.sweep.sweep import sweep


def available(client: Client, world: World) -> None:
    client.post("/v1/filesystems", filesystem_document())
    sweep(world.ports)
    (fsx_id,) = world.lustre.there
    world.lustre.advance(fsx_id, "there")
    sweep(world.ports)
    world.lustre.link_is(fsx_id, "there")
    sweep(world.ports)


def test_a_created_filesystem_is_accepted_with_its_location(client: Client) -> None:
    answer = client.post("/v1/filesystems", filesystem_document())
    assert answer.status == 202
    assert answer.headers["Location"] == "/v1/filesystems/lab"
    assert answer.json["status"] == "Pending"
    assert [one["name"] for one in client.get("/v1/filesystems").json["filesystems"]] == ["lab"]
    assert not {"version", "uses", "idempotencyKey", "paused"} & set(answer.json)


def test_a_dry_run_shows_the_requests_and_the_price_and_makes_nothing(
    client: Client, world: World
) -> None:
    plan = client.post(
        "/v1/filesystems", filesystem_document(storageGib=2400), query={"dryrun": "true"}
    )
    assert plan.status == 200
    assert plan.json["requests"][0]["operation"] == "CreateFileSystem"
    assert plan.json["requests"][0]["request"]["StorageCapacity"] == 2400
    assert plan.json["monthlyUsd"] == pytest.approx(348.0)
    assert not world.filesystems.stored


def test_one_that_is_shown_says_who_uses_it_and_how_full_it_is(
    client: Client, world: World
) -> None:
    available(client, world)
    body = spec()["cluster"]["spec"]
    cluster = {**body, "name": "one", "sharedFilesystem": {"filesystem": "lab"}}
    assert client.post("/v1/clusters", cluster).status == 202
    shown = client.get("/v1/filesystems/lab").json
    assert (shown["status"], shown["clusters"], shown["usedBytes"]) == ("Available", ["one"], 4096)
    assert shown["events"][-1]["message"] == "Clusters may mount it."
    is_a_problem(client.send("DELETE", "/v1/filesystems/lab"), 409, "filesystem-in-use")


def test_a_cluster_that_names_an_unknown_one_is_refused_by_its_field(client: Client) -> None:
    body = {**spec()["cluster"]["spec"], "sharedFilesystem": {"filesystem": "none"}}
    refused = client.post("/v1/clusters", body)
    is_a_problem(refused, 400, "invalid-request")
    assert refused.json["errors"][0]["field"] == "sharedFilesystem.filesystem"
    run = spec()
    run["cluster"]["spec"]["sharedFilesystem"] = {"filesystem": "none"}
    refused = client.post("/v1/runs", run, query={"dryrun": "true"})
    assert refused.json["errors"][0]["field"].endswith("sharedFilesystem.filesystem")


def test_a_run_with_a_cluster_of_its_own_is_refused_by_the_field_of_its_spec(
    client: Client,
) -> None:
    run = spec()
    run["cluster"]["spec"]["sharedFilesystem"] = {"filesystem": "none"}
    refused = client.post("/v1/runs", run)
    assert refused.json["errors"][0]["field"] == "cluster.spec.sharedFilesystem.filesystem"


def test_an_export_is_accepted_and_the_one_that_runs_is_the_answer(
    client: Client, world: World
) -> None:
    available(client, world)
    first = client.post("/v1/filesystems/lab:export")
    assert (first.status, first.json["export"]["askedBy"]) == (202, "person")
    assert client.post("/v1/filesystems/lab:export").json["export"]["number"] == 1
    assert client.get("/v1/filesystems/lab:export").status == 405


def test_giving_up_what_it_holds_needs_a_reason(client: Client, world: World) -> None:
    available(client, world)
    refused = client.send("DELETE", "/v1/filesystems/lab", query={"discard": "true"})
    is_a_problem(refused, 400, "invalid-request")
    assert refused.json["errors"][0]["field"] == "reason"
    gone = client.send(
        "DELETE", "/v1/filesystems/lab", query={"discard": "true", "reason": "scratch"}
    )
    assert (gone.status, gone.json["discardReason"]) == (202, "scratch")


def test_without_a_repository_it_is_kept_with_what_to_do(client: Client, world: World) -> None:
    client.post("/v1/filesystems", filesystem_document(repository=None))
    sweep(world.ports)
    (fsx_id,) = world.lustre.there
    world.lustre.advance(fsx_id, "there")
    sweep(world.ports)
    refused = client.send("DELETE", "/v1/filesystems/lab")
    is_a_problem(refused, 409, "filesystem-holds-only-copy")
    assert "--discard REASON" in refused.json["nextStep"]


def test_an_unknown_one_is_not_found(client: Client) -> None:
    for path in ("/v1/filesystems/none", "/v1/filesystems/no_name"):
        is_a_problem(client.get(path), 404, "filesystem-not-found")
