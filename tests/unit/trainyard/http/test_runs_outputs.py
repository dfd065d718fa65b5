"""What a run's verified export holds, over HTTP, and where it lies."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import fact
from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World

from trainyard.domain.records import Attempt, Export, Run
from trainyard_contracts.files import ExportedObject, ExportManifest


def exported(client: Client, world: World, *keys: str, **export: Any) -> Run:
    run = world.runs.get(client.post("/v1/runs", spec()).json["id"])
    made = Export(
        id="export-1",
        requested_at=world.clock.now(),
        manifest_key=run.export_manifest_key,
        **{"state": "verified", **export},
    )
    manifest = ExportManifest(
        run_id=run.id,
        created_at=world.clock.now(),
        objects=[ExportedObject(key=key, bytes=7, sha256="ab" * 32) for key in keys],
    )
    world.blobs.put(run.export_manifest_key, manifest.model_dump_json(by_alias=True).encode())
    return world.runs.put(run.model_copy(update={"export": made}))


def test_a_run_whose_program_never_started_has_nothing_to_export(
    client: Client, world: World
) -> None:
    run = world.runs.get(client.post("/v1/runs", spec()).json["id"])
    answer = client.get(f"/v1/runs/{run.id}/outputs")
    is_a_problem(answer, 409, "not-exported")
    assert answer.json["nextStep"] == "Ask again when it trains."
    world.runs.put(run.changed(status="Failed", outcome="failed"))
    answer = client.get(f"/v1/runs/{run.id}/outputs")
    is_a_problem(answer, 409, "not-exported")
    assert "there is nothing to export" in answer.json["detail"]
    assert answer.json["nextStep"] == f"Look why with trainyard run show {run.id}."
    trained = [Attempt(number=1, submitted_at=world.clock.now())]
    world.runs.put(world.runs.get(run.id).changed(attempts=trained))
    answer = client.get(f"/v1/runs/{run.id}/outputs")
    assert f"trainyard run export {run.id}" in answer.json["nextStep"]


def test_the_export_is_listed_page_by_page(client: Client, world: World) -> None:
    run = exported(client, world, "final/a", "final/b", "output/c")
    path = f"/v1/runs/{run.id}/outputs"
    first = client.get(path, query={"limit": 2}).json
    assert first["uri"] == f"s3://{world.blobs.bucket}/{run.export_prefix}"
    assert [found["key"] for found in first["outputs"]] == ["final/a", "final/b"]
    assert first["outputs"][0] == {
        "key": "final/a",
        "bytes": 7,
        "sha256": "ab" * 32,
        "url": None,
    }
    second = client.get(path, query={"limit": 2, "nextToken": first["nextToken"]}).json
    assert [found["key"] for found in second["outputs"]] == ["output/c"]
    assert second["nextToken"] is None


def test_urls_are_given_for_objects_below_the_export_only(client: Client, world: World) -> None:
    run = exported(client, world, "final/a", "../secret", "/b", "c//d", "")
    answer = client.get(f"/v1/runs/{run.id}/outputs", query={"urls": "true"}).json
    urls = [found["url"] for found in answer["outputs"]]
    assert urls == [f"https://bucket.example/{run.export_prefix}final/a?expires=3600", *[None] * 4]
    assert answer["urlsExpireAt"] is not None


def test_a_page_with_urls_stays_below_what_a_function_may_answer(
    client: Client, world: World
) -> None:
    keys = [f"output/{number:04}{'x' * 900}" for number in range(300)]
    run = exported(client, world, *keys)
    path = f"/v1/runs/{run.id}/outputs"
    first = client.get(path, query={"limit": 1000, "urls": "true"}).json
    assert len(first["outputs"]) == 200
    rest = client.get(path, query={"limit": 1000, "nextToken": first["nextToken"]}).json
    assert len(rest["outputs"]) == 100
    assert len(client.get(path, query={"limit": 1000}).json["outputs"]) == 300


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": "running"}, "Its newest export is running."),
        ({"state": "failed", "reason": "the disk is full"}, "failed: the disk is full."),
        (None, "was not exported yet"),
    ],
)
def test_what_is_not_verified_is_not_listed(
    client: Client, world: World, change: dict[str, Any] | None, words: str
) -> None:
    run = exported(client, world, "final/a", **(change or {}))
    if change is None:
        attempts = [Attempt(number=1, submitted_at=world.clock.now())]
        world.runs.put(world.runs.get(run.id).changed(export=None, attempts=attempts))
    answer = client.get(f"/v1/runs/{run.id}/outputs")
    is_a_problem(answer, 409, "not-exported")
    assert words in answer.json["detail"]


def test_a_manifest_that_is_gone_is_told(client: Client, world: World) -> None:
    run = exported(client, world, "final/a")
    world.blobs.objects.clear()
    is_a_problem(client.get(f"/v1/runs/{run.id}/outputs"), 409, "not-exported")


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"urls": "x"}, {"other": 1}])
def test_wrong_parameters_are_refused(client: Client, world: World, query: dict[str, Any]) -> None:
    run = exported(client, world, "final/a")
    is_a_problem(client.get(f"/v1/runs/{run.id}/outputs", query=query), 400, "invalid-request")


def test_an_export_says_where_it_lies(client: Client, world: World) -> None:
    run = exported(client, world, "final/a")
    uri = f"s3://{world.blobs.bucket}/{run.export_prefix}"
    assert client.get(f"/v1/runs/{run.id}").json["export"]["uri"] == uri
    assert client.get("/v1/runs").json["runs"][0]["export"]["uri"] == uri


def test_a_run_that_ended_still_says_its_last_step_and_loss(client: Client, world: World) -> None:
    run = world.runs.get(client.post("/v1/runs", spec()).json["id"])
    now = world.clock.now()
    ended = fact("AttemptEnded", "E1", now, 1, runId=run.id, lastStep=200, lastLoss=0.25)
    world.runs.record(run.id, ended, "ended")
    attempt = Attempt(number=1, submitted_at=now, ended_at=now, outcome="succeeded")
    world.runs.put(world.runs.get(run.id).model_copy(update={"attempts": [attempt]}))
    latest = client.get(f"/v1/runs/{run.id}").json["latest"]
    assert (latest["step"], latest["loss"], latest["attempt"]) == (200, 0.25, 1)
