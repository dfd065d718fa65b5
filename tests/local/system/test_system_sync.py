"""A run outlives its cluster and the cluster's filesystem: it goes on from what was in S3."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.spec_parts import FILESYSTEM, cluster_spec
from tests.support.system import Json, System, eventually, light_job, total

LOST = {**FILESYSTEM, "dnsName": "fs-0aaaaaaaaaaaaaaaa.fsx.us-east-1.amazonaws.com"}
OTHER = "fs-0bbbbbbbbbbbbbbbb.fsx.us-east-1.amazonaws.com/abcdefgh"


def synced(system: System, run_id: str, step: int) -> Json:
    return system.until(
        run_id,
        f"step {step} is synced",
        lambda run: ((run.get("sync") or {}).get("lastStep") or 0) >= step,
    )


def lose(system: System, run_id: str) -> None:
    """The whole cluster at once, and its filesystem."""
    cluster = system.api.run(run_id)["clusterName"]
    for node in system.api.nodes(cluster):
        system.fault("kill-node", cluster, node=node["instanceId"])
    shutil.rmtree(system.run_dir(run_id).parents[2])

    def told() -> Json | None:
        system.sweep()
        found = system.api.run(run_id)
        return found if found["finishedAt"] else None

    eventually("the sweep finds that the cluster is lost", told, 120)
    assert system.ended(run_id, "Failed")["status"] == "Failed"
    system.api.delete_cluster(cluster, force=True)
    eventually(
        "the lost cluster is deleted",
        lambda: system.api.cluster(cluster)["status"] == "Deleted",
        120,
    )


def all_there(system: System, run_id: str) -> bool:
    """Older ones are removed while it trains, which is told after it was done."""
    whole = [found for found in system.api.checkpoints(run_id) if found["status"] == "whole"]
    return all((system.run_dir(run_id) / found["path"]).is_dir() for found in whole)


def test_a_run_whose_cluster_and_filesystem_are_lost_goes_on_from_the_synced_step(
    system: System,
) -> None:
    spec = cluster_spec("synced", sharedFilesystem=LOST)
    job = light_job(1, steps=60, every=5, hold_at=31)
    run_id = system.submit("synced", job, spec, export={"everySeconds": 5})
    synced(system, run_id, 30)
    eventually("the copy is told", lambda: system.timeline(run_id, "ResultsSynced"), 60)
    [first] = system.timeline(run_id, "ResultsSynced")
    assert "It is copied every 5 s." in first["message"]
    page = next(iter(system.api.outputs(run_id)))
    assert page["source"] == "sync"
    assert any("step-000000000030" in found["key"] for found in page["outputs"])
    lose(system, run_id)
    assert next(iter(system.api.outputs(run_id)))["source"] == "sync", "nothing is lost"

    system.api.resume_run(run_id, filesystem=OTHER)
    run = system.training(run_id, 2, seconds=180)
    [restored] = system.timeline(run_id, "RunRestored")
    assert "the checkpoint of step 30" in restored["message"]
    eventually("what is called whole is there", lambda: all_there(system, run_id))
    run = system.ended(run_id, "Succeeded", 180)
    assert run["attempts"][1]["resumedFrom"] == 30
    assert system.value(run_id) == total(60)
    assert run["export"]["state"] == "verified"
    assert next(iter(system.api.outputs(run_id)))["source"] == "export"
    assert left(system, run_id) == [], "the export holds the same"


@contextmanager
def no_copies(system: System, cluster: str) -> Iterator[None]:
    """The cluster's nodes may not write what they sync."""
    iam = system.aws("iam")
    [role] = [
        found["RoleName"]
        for found in iam.list_roles(PathPrefix="/trainyard/")["Roles"]
        if f"/{cluster}/" in found["Path"]
    ]
    statement = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::*/sync/*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName=role, PolicyName="no-copies", PolicyDocument=document)
    try:
        yield
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="no-copies")


def left(system: System, run_id: str) -> list[str]:
    prefix = f"sync/{system.api.run(run_id)['clusterName']}/{run_id}/"
    found = system.aws("s3").list_objects_v2(Bucket=system.local["bucket"], Prefix=prefix)
    return [item["Key"] for item in found.get("Contents", [])]


def test_a_sync_that_s3_refuses_is_told_once_and_training_goes_on(
    system: System, shared: str
) -> None:
    job = light_job(1, steps=40, every=5, hold_at=31)
    run_id = system.submit("refused", job, shared, export={"everySeconds": 5})
    system.training(run_id, checkpoints=1)
    cluster = system.api.run(run_id)["clusterName"]
    with no_copies(system, cluster):
        system.until(
            run_id, "the failure is told", lambda _: system.timeline(run_id, "SyncFailed"), 90
        )
        system.release(run_id)
        system.ended(run_id, "Succeeded")
    [failed] = system.timeline(run_id, "SyncFailed")
    assert "Training goes on" in failed["message"]
    assert system.value(run_id) == total(40)
