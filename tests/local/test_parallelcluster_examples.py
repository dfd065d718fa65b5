"""The examples for ParallelCluster run on the local cloud's, smaller, and with its Python."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import tiny_bert
from tests.support.queue_cloud import Json, QueueCloud, queue_cloud
from tests.support.repository import ROOT
from tests.support.system import eventually

from trainyard_sdk.spec_files import read_spec

CORPUS = ROOT / "tests/data" / "en-de" / "train"
LAB = "sagemaker-lab"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="/fsx takes root on the local cloud"),
]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueCloud]:
    with queue_cloud(tmp_path_factory.mktemp("examples")) as found:
        yield found


def example(name: str, *, smaller: dict[str, Any]) -> Json:
    """As it is in `examples/`, but with this machine's Python, one process a node, and less work.

    `smaller` takes the place of the program's arguments of that name, and adds others.
    """
    spec = dict(read_spec(str(ROOT / "examples" / f"{name}.yaml"), "run"))
    spec["cluster"]["spec"]["environment"] = {"kind": "existing", "path": "/opt/trainyard/env"}
    job = spec["job"] | {"processesPerNode": 1}
    kept = [one for one in job["arguments"] if one[2:].partition("=")[0] not in smaller]
    job["arguments"] = [*kept, *(f"--{key}={value}" for key, value in smaller.items())]
    return spec | {"job": job}


def finished(cloud: QueueCloud, spec: Json) -> Json:
    """The run, whose cluster is gone and whose final weights are in S3."""
    system = cloud.system
    run_id = str(system.api.submit_run(spec)["id"])

    def over() -> bool:
        system.sweep()
        return system.api.run(run_id)["status"] in ("Succeeded", "Failed", "Cancelled")

    eventually(f"run {run_id} is over", over, 420)
    run = system.ended(run_id, "Succeeded", 5)
    assert any("final/" in key for key in system.exported(run_id)), system.exported(run_id)
    assert system.api.cluster(run["clusterName"])["status"] == "Deleted"
    return dict(run)


def test_bert_is_tuned_on_a_spot_node_that_the_job_powers_up(cloud: QueueCloud) -> None:
    spec = example(
        "bert-on-parallelcluster",
        smaller={
            "steps": 6,
            "warmup-steps": 2,
            "batch": 8,
            "max-tokens": 64,
            "precision": "float32",
        },
    )
    (storage,) = spec["cluster"]["spec"]["sharedStorage"]
    named = hashlib.sha256(storage["fsx"]["fileSystemId"].encode()).hexdigest()[:16]
    fsx = cloud.system.state_dir / "fsx" / named
    (fsx / "models").mkdir(parents=True)
    tiny_bert.make(fsx / "models" / "bert-base-uncased")
    (fsx / "data" / "mrpc").mkdir(parents=True)
    for sample, name in (("train", "train"), ("validation", "test")):
        place = fsx / "data" / "mrpc" / f"msr_paraphrase_{name}.txt"
        shutil.copy(tiny_bert.SAMPLES / f"{sample}.tsv", place)
    run = finished(cloud, spec)
    assert run["attempts"][0]["nodes"] == ["gpus-dy-nodes-1"]


def test_translation_begins_with_the_files_of_its_archive_and_leaves_its_own_there(
    cloud: QueueCloud,
) -> None:
    spec = example(
        "translate-on-parallelcluster",
        smaller={
            "steps": 6,
            "vocabulary-size": 400,
            "max-tokens": 64,
            "tokens-per-batch": 128,
            "precision": "float32",
            "model.layers": 1,
            "model.width": 16,
            "model.heads": 2,
            "model.feed-forward": 32,
        },
    )
    s3, (storage,) = cloud.aws("s3"), spec["cluster"]["spec"]["sharedStorage"]
    storage["fsx"]["archive"] = f"s3://{LAB}/en-de/"
    s3.create_bucket(Bucket=LAB)
    for name in ("train", "dev"):
        for language in ("en", "de"):
            body = CORPUS.with_suffix(f".{language}").read_bytes()
            s3.put_object(Bucket=LAB, Key=f"en-de/corpus/{name}.{language}", Body=body)
    run = finished(cloud, spec)
    archived = {one["Key"] for one in s3.list_objects_v2(Bucket=LAB)["Contents"]}
    assert any(f"runs/{run['id']}/" in key for key in archived), archived
    assert _filesystems(cloud.system.state_dir) == []


def test_pretraining_on_trainium_is_shown_by_a_dry_run(cloud: QueueCloud) -> None:
    name = ROOT / "examples" / "llm-trainium-on-parallelcluster.yaml"
    plan = cloud.system.api.plan_run(read_spec(str(name), "run"))
    configuration = plan["request"]["clusterConfiguration"]
    (queue,) = configuration["Scheduling"]["SlurmQueues"]
    assert queue["CapacityType"] == "CAPACITY_BLOCK"
    (nodes,) = queue["ComputeResources"]
    assert (nodes["MinCount"], nodes["MaxCount"], nodes["Efa"]["Enabled"]) == (2, 2, True)


def _filesystems(state_dir: Path) -> list[str]:
    return [one.name for one in (state_dir / "fsx").glob("fs-*")]
