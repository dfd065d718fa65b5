"""The filesystem of a ParallelCluster lives on in its archive, or keeps its cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.support.queue_cloud import Json, QueueCloud, queue_cloud, queue_spec
from tests.support.system import eventually, light_job

pytestmark = pytest.mark.long

NAME, BUCKET = "archived", "sagemaker-archive"
STEADY = {"name": "steady", "min": 1, "max": 1}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueCloud]:
    with queue_cloud(tmp_path_factory.mktemp("archived")) as found:
        found.aws("s3").create_bucket(Bucket=BUCKET)
        yield found


def spec() -> Json:
    made = {"capacityGib": 1200, "archive": f"s3://{BUCKET}/lab/"}
    shared = {"name": "scratch", "mountPath": "/fsx", "fsx": made}
    return queue_spec(NAME, STEADY, sharedStorage=[shared])


def until(cloud: QueueCloud, what: str, condition: Callable[[Json], bool]) -> Json:
    """The cluster once the condition holds; the sweep takes its archive on."""

    def look() -> Json | None:
        cloud.system.sweep()
        found = cloud.system.api.cluster(NAME)
        return dict(found) if condition(found) else None

    return dict(eventually(what, look, 180))


def ready(cloud: QueueCloud) -> None:
    cloud.system.api.create_cluster(spec())
    until(cloud, "it is ready", lambda found: found["status"] == "Ready")


def deleted(cloud: QueueCloud) -> None:
    """Asked again while it is Ready: a machine that just ends for the last try takes no request."""

    def gone(found: Json) -> bool:
        if found["status"] == "Ready":
            cloud.system.api.delete_cluster(NAME)
        return bool(found["status"] == "Deleted")

    until(cloud, "it is deleted", gone)


def filesystems(cloud: QueueCloud) -> list[str]:
    return [one["FileSystemId"] for one in cloud.aws("fsx").describe_file_systems()["FileSystems"]]


def test_what_a_cluster_held_is_there_again_when_it_is_made_again(cloud: QueueCloud) -> None:
    system = cloud.system
    ready(cloud)
    (first,) = filesystems(cloud)
    run_id = system.submit("first", light_job(1, steps=20, every=5), NAME)
    system.ended(run_id, "Succeeded")
    notes = system.state_dir / "fsx" / first / "notes.txt"
    notes.write_text("of no run")
    deleted(cloud)
    assert filesystems(cloud) == []
    assert not notes.exists()
    body = cloud.aws("s3").get_object(Bucket=BUCKET, Key="lab/notes.txt")["Body"].read()
    assert body == b"of no run"

    ready(cloud)
    (second,) = filesystems(cloud)
    assert second != first
    assert (system.state_dir / "fsx" / second / "notes.txt").read_text() == "of no run"
    start = {"startFrom": {"run": run_id, "step": 20}}
    again = system.submit("again", light_job(1, steps=30, every=5), NAME, checkpoint=start)
    run = system.ended(again, "Succeeded")
    assert run["attempts"][0]["resumedFrom"] == 20


def test_a_cluster_whose_archive_cannot_be_written_is_kept_with_its_files(
    cloud: QueueCloud,
) -> None:
    """Goes on with the cluster of the test before."""
    system, s3 = cloud.system, cloud.aws("s3")
    (fsx_id,) = filesystems(cloud)
    for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=one["Key"])
    s3.delete_bucket(Bucket=BUCKET)
    system.api.delete_cluster(NAME)
    kept = until(cloud, "its export failed", lambda found: found["problem"] is not None)
    assert (kept["status"], kept["problem"]["code"]) == ("Ready", "archive-failed")
    assert (system.state_dir / "fsx" / fsx_id / "notes.txt").exists()
    assert cloud.api.describe(NAME).cluster_status == "CREATE_COMPLETE"

    s3.create_bucket(Bucket=BUCKET)
    (system.state_dir / "fsx" / fsx_id / "notes.txt").write_text("changed since")
    deleted(cloud)
    body = s3.get_object(Bucket=BUCKET, Key="lab/notes.txt")["Body"].read()
    assert body == b"changed since"
