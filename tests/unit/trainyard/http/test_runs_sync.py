"""What of a run was synced is shown and listed until its export is verified, and resumed from."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.support.http_events import Client, changed, is_a_problem, spec
from tests.support.memory import World
from tests.support.spec_parts import cluster_spec

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.domain.errors import RetryableError
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt, Export, Run
from trainyard_contracts import places
from trainyard_contracts.files import ExportManifest, SyncedObject, SyncLatest, SyncManifest

EVERY = changed("export", {"everySeconds": 60})
OTHER = "fs-0fedcba9876543210.fsx.us-east-1.amazonaws.com/hgfedcba"


def submitted(client: Client, world: World, body: dict[str, Any] = EVERY) -> Run:
    return world.runs.get(client.post("/v1/runs", body).json["id"])


def synced(world: World, run: Run, *keys: str, number: int = 1) -> None:
    objects = [SyncedObject(key=key, bytes=7, sha256=f"{at:064x}") for at, key in enumerate(keys)]
    now = world.clock.now()
    manifest = SyncManifest(run_id=run.id, attempt=1, created_at=now, objects=objects)
    latest = SyncLatest(
        run_id=run.id, attempt=1, at=now, number=number, objects=len(keys), bytes=7, last_step=40
    )
    for name, found in ((places.sync_manifest(number), manifest), ("latest.json", latest)):
        body = found.model_dump_json(by_alias=True).encode()
        world.blobs.put(f"sync/{run.cluster_name}/{run.id}/{name}", body)


def exported(world: World, run: Run, **export: Any) -> None:
    fields = {"state": "verified", "requested_at": world.clock.now(), **export}
    made = Export(id="e", manifest_key=run.export_manifest_key, **fields)
    found = SyncedObject(key="final/exported", bytes=1, sha256="ab" * 32)
    manifest = ExportManifest(run_id=run.id, created_at=world.clock.now(), objects=[found])
    world.blobs.put(run.export_manifest_key, manifest.model_dump_json(by_alias=True).encode())
    world.runs.put(world.runs.get(run.id).changed(export=made))


def test_the_last_copy_is_shown(client: Client, world: World) -> None:
    run = submitted(client, world)
    assert client.get(f"/v1/runs/{run.id}").json["sync"] is None
    synced(world, run, "output/a")
    found = client.get(f"/v1/runs/{run.id}").json["sync"]
    assert (found["lastStep"], found["objects"], found["attempt"]) == (40, 1, 1)
    assert found["at"].startswith(world.clock.now().isoformat()[:19])


@pytest.mark.parametrize("body", [b"{", b"{}", b'{"runId": "another"}'])
def test_a_copy_that_cannot_be_read_hides_no_run(client: Client, world: World, body: bytes) -> None:
    run = submitted(client, world)
    world.blobs.put(f"{run.sync_prefix}/latest.json", body)
    assert client.get(f"/v1/runs/{run.id}").json["sync"] is None


def test_a_run_is_shown_though_s3_does_not_answer(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submitted(client, world)

    def away(key: str) -> bytes:
        raise RetryableError("S3 does not answer")

    monkeypatch.setattr(world.blobs, "get", away)
    answer = client.get(f"/v1/runs/{run.id}")
    assert (answer.status, answer.json["sync"]) == (200, None)


def test_what_was_synced_is_listed_with_urls_by_hash(client: Client, world: World) -> None:
    run = submitted(client, world)
    path = f"/v1/runs/{run.id}/outputs"
    is_a_problem(client.get(path), 409, "not-exported")
    synced(world, run, "output/a", "../evil")
    answer = client.get(path, query={"urls": "true"}).json
    assert (answer["source"], answer["uri"]) == (
        "sync", f"s3://{world.blobs.bucket}/{run.sync_prefix}/",
    )  # fmt: skip
    assert answer["syncedAt"] is not None
    first, evil = answer["outputs"]
    assert first["url"] == f"https://bucket.example/{run.sync_prefix}/{0:064x}?expires=3600"
    assert evil["url"] is None


def test_a_list_goes_on_where_it_began_though_a_newer_one_is_in_force(
    client: Client, world: World
) -> None:
    run = submitted(client, world)
    synced(world, run, "output/a", "output/b")
    path = f"/v1/runs/{run.id}/outputs"
    token = client.get(path, query={"limit": 1}).json["nextToken"]
    synced(world, run, "output/c", number=2)
    second = client.get(path, query={"limit": 1, "nextToken": token}).json
    assert [found["key"] for found in second["outputs"]] == ["output/b"]
    del world.blobs.objects[f"{run.sync_prefix}/manifest-1.json"]
    gone = client.get(path, query={"limit": 1, "nextToken": token})
    is_a_problem(gone, 409, "conflict")
    assert "from its beginning" in gone.json["nextStep"]


def keys(client: Client, run: Run) -> list[str]:
    return [found["key"] for found in client.get(f"/v1/runs/{run.id}/outputs").json["outputs"]]


def test_the_verified_export_at_the_end_comes_first_and_then_the_newer_of_both(
    client: Client, world: World
) -> None:
    run = submitted(client, world)
    synced(world, run, "output/synced")
    exported(world, run, requested_at=world.clock.now() - timedelta(hours=1))
    assert keys(client, run) == ["output/synced"]
    exported(world, run, requested_at=world.clock.now() + timedelta(hours=1))
    assert keys(client, run) == ["final/exported"]
    exported(world, run, requested_at=world.clock.now() - timedelta(hours=1), final=True)
    assert keys(client, run) == ["final/exported"]
    exported(world, run, state="failed", final=True)
    assert keys(client, run) == ["output/synced"]


def failed(world: World, run: Run) -> None:
    attempt = Attempt(number=1, submitted_at=world.clock.now(), outcome="lost")
    stored = world.runs.get(run.id)
    world.runs.put(stored.changed(status="Failed", outcome="failed", attempts=[attempt]))


def test_a_run_whose_filesystem_is_lost_resumes_on_another_one(
    client: Client, world: World
) -> None:
    run = submitted(client, world)
    failed(world, run)
    answer = client.post(f"/v1/runs/{run.id}:resume", query={"filesystem": OTHER})
    assert answer.status == 202, answer.text
    given = answer.json["spec"]["cluster"]["spec"]["sharedFilesystem"]
    assert f"{given['dnsName']}/{given['mountName']}" == OTHER
    before = run.spec.cluster.spec
    assert before is not None
    assert given["mountPath"] == before.shared_filesystem.mount_path
    assert answer.json["spec"]["job"] == json.loads(run.spec.job.model_dump_json(by_alias=True))


def test_a_cluster_that_is_there_keeps_its_filesystem(client: Client, world: World) -> None:
    run = submitted(client, world)
    failed(world, run)
    stored = world.runs.get(run.id)
    assert stored.spec.cluster.spec is not None
    spec_of = stored.spec.cluster.spec
    create_cluster(world.ports, spec_of, name=stored.cluster_name, owner_run=stored.id)
    answer = client.post(f"/v1/runs/{run.id}:resume", query={"filesystem": OTHER})
    is_a_problem(answer, 409, "wrong-state")
    assert "would go on with the filesystem that it mounts" in answer.json["detail"]
    assert f"trainyard cluster delete {stored.cluster_name}" in answer.json["nextStep"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "Create a cluster named 'demo'"),
        ("Deleted", "Create a cluster named 'demo'"),
        ("Deleting", "Wait until it is Deleted, then create a cluster named 'demo'"),
        ("Failed", "Delete it (trainyard cluster delete demo), then create a cluster"),
        ("Creating", "Wait until it is Ready, then: trainyard run resume"),
    ],
)
def test_a_run_on_a_cluster_that_is_lost_waits_for_one_of_its_name_on_any_filesystem(
    client: Client, world: World, status: Any, words: str
) -> None:
    client.post("/v1/clusters", cluster_spec("demo", workers=2, spares=1))
    run = submitted(client, world, {**EVERY, "cluster": {"name": "demo"}})
    synced(world, run, "output/a")
    failed(world, run)
    world.clock.tick(720)
    there = world.clusters.stored.pop("demo")
    if status is not None:
        world.clusters.stored["demo"] = there.changed(status=status)
    answer = client.post(f"/v1/runs/{run.id}:resume")
    is_a_problem(answer, 409, "wrong-state")
    assert "is in S3 (step 40, copied 12 minutes ago)" in answer.json["detail"]
    assert answer.json["nextStep"].startswith(words)
    world.clusters.stored["demo"] = there.changed(status="Ready")
    assert client.post(f"/v1/runs/{run.id}:resume").status == 202


def test_what_was_copied_is_what_a_run_whose_cluster_is_lost_is_told_first(
    client: Client, world: World
) -> None:
    run = submitted(client, world)
    synced(world, run, "output/a")
    failed(world, run)
    lost = problem("cluster-failed", "It is gone.")
    world.runs.put(world.runs.get(run.id).changed(problem=lost))
    world.clock.tick(720)
    said = client.get(f"/v1/runs/{run.id}").json["problem"]["nextStep"]
    assert said.startswith(
        f"trainyard run resume {run.id} goes on from what is in S3 (step 40, copied 12 minutes ago)"
    )


@pytest.mark.parametrize("given", ["", "x", "fs-1/a", OTHER.partition("/")[0], f"{OTHER}/b"])
def test_what_is_no_filesystem_is_refused(client: Client, world: World, given: str) -> None:
    run = submitted(client, world)
    failed(world, run)
    answer = client.post(f"/v1/runs/{run.id}:resume", query={"filesystem": given})
    is_a_problem(answer, 400, "invalid-request")
    assert "DNS name and mount name" in answer.fields["filesystem"]


def test_a_run_that_was_not_synced_has_nothing_for_another_filesystem(
    client: Client, world: World
) -> None:
    run = submitted(client, world, spec())
    failed(world, run)
    answer = client.post(f"/v1/runs/{run.id}:resume", query={"filesystem": OTHER})
    is_a_problem(answer, 400, "invalid-request")
    assert "export.everySeconds" in answer.fields["filesystem"]
