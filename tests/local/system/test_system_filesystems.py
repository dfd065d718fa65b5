"""A filesystem outlives its clusters, and its repository outlives the filesystem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.spec_parts import NETWORK, cluster_spec
from tests.support.system import Json, System, eventually, light_job

from trainyard_cli.problems import ApiProblem

BUCKET = "sagemaker-archive"
LAB = {
    "name": "lab",
    "subnetId": NETWORK["subnetIds"][0],
    "securityGroupIds": NETWORK["securityGroupIds"],
    "repository": {"source": f"s3://{BUCKET}/lab/"},
}


def until(system: System, what: str, condition: Callable[[Json], Any], name: str = "lab") -> Json:
    """The filesystem once the condition holds; the sweep takes it on."""

    def look() -> Json | None:
        system.sweep()
        found = system.api.filesystem(name)
        return found if condition(found) else None

    return dict(eventually(what, look, 60))


def available(system: System, spec: Json) -> Json:
    system.api.create_filesystem(spec)
    return until(system, "it is available", lambda found: found["status"] == "Available")


def on_lab(name: str) -> Json:
    return cluster_spec(name, sharedFilesystem={"filesystem": "lab"})


def delete_cluster(system: System, name: str) -> None:
    system.api.delete_cluster(name, force=True)
    eventually("the cluster is gone", lambda: system.api.cluster(name)["status"] == "Deleted", 120)


@pytest.mark.long
def test_two_clusters_one_after_the_other_and_a_filesystem_that_is_made_again(
    system: System,
) -> None:
    s3 = system.aws("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="lab/data/words.txt", Body=b"three words here")
    plan = system.api.plan_filesystem(LAB)
    assert [one["operation"] for one in plan["requests"]] == [
        "CreateFileSystem",
        "CreateDataRepositoryAssociation",
    ]
    filesystem = available(system, LAB)
    directory = system.state_dir / "fsx" / filesystem["fsxId"]
    assert (directory / "data" / "words.txt").read_text() == "three words here"

    system.api.create_cluster(on_lab("lab-one"))
    system.cluster_ready("lab-one")
    first = system.submit("first", light_job(1, steps=20, every=5), "lab-one")
    system.ended(first, "Succeeded")
    assert list((directory / "trainyard" / "runs" / first / "checkpoints").iterdir())
    with pytest.raises(ApiProblem, match="lab-one"):
        system.api.delete_filesystem("lab")
    delete_cluster(system, "lab-one")

    system.api.create_cluster(on_lab("lab-two"))
    system.cluster_ready("lab-two")
    start = {"startFrom": {"run": first, "step": 20}}
    second = system.submit("second", light_job(1, steps=30, every=5), "lab-two", checkpoint=start)
    run = system.ended(second, "Succeeded")
    assert run["attempts"][0]["resumedFrom"] == 20
    assert system.api.filesystem("lab")["clusters"] == ["lab-two"]
    delete_cluster(system, "lab-two")

    system.api.export_filesystem("lab")
    exported = until(system, "the export is verified", lambda found: found["verifiedExport"])
    assert exported["verifiedExport"]["files"] > 0
    made_again(system, filesystem, second)


def made_again(system: System, before: Json, run_id: str) -> None:
    """Deleted with what it holds in S3, and made from that."""
    runs = system.state_dir / "fsx" / before["fsxId"] / "trainyard" / "runs"
    held = {
        str(path.relative_to(runs)): path.read_bytes()
        for path in (runs / run_id).rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    assert held
    assert system.api.delete_filesystem("lab")["status"] == "Archiving"
    until(system, "it is deleted", lambda found: found["status"] == "Deleted")
    assert not runs.exists()
    again = available(system, LAB)
    assert again["fsxId"] != before["fsxId"]
    runs = system.state_dir / "fsx" / again["fsxId"] / "trainyard" / "runs"
    assert {name: (runs / name).read_bytes() for name in held} == held
    system.api.delete_filesystem("lab", discard="the test is over")
    gone = until(system, "it is deleted", lambda found: found["status"] == "Deleted")
    assert gone["discardReason"] == "the test is over"
    assert list((system.state_dir / "fsx").glob("fs-*")) == []
