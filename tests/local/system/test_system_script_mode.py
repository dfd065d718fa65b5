"""A script of SageMaker's script mode is a run as it is: on lost hosts, and on every backend."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

import httpx
import pytest
import yaml
from tests.local.system.test_system_training_job import jobs_of
from tests.support.job_cloud import skip_where_there_are_no_hosts
from tests.support.repository import ROOT
from tests.support.system import Json, System

MODEL = "output/script-mode/model/model.pt"
INPUTS = "s3://sagemaker-corpus/points/"
EXAMPLE = yaml.safe_load((ROOT / "examples/script-mode.yaml").read_text())


@pytest.fixture
def _points(system: System) -> None:
    """What the script learns from, in a bucket that runs may read."""
    s3 = system.aws("s3")
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket="sagemaker-corpus")
    rows = [f"{row / 10},{row % 3},{row / 5 - row % 3}" for row in range(16)]
    body = "\n".join(rows).encode()
    s3.put_object(Bucket="sagemaker-corpus", Key="points/points.csv", Body=body)


def submit(system: System, name: str, cluster: str | Json, watch: str, **given: Any) -> str:
    """The example's run with these hyperparameters; its id."""
    inputs = [{**EXAMPLE["inputs"][0], "source": INPUTS}]
    job = {**EXAMPLE["job"], "hyperparameters": {"learning-rate": 0.1, **given}}
    return system.submit(
        name, job, cluster, inputs=inputs, checkpoint={"watch": {"pattern": watch}}
    )


def in_a_job(system: System, name: str, kind: str = "none", **given: Any) -> str:
    """In a training job, with checkpoints in /opt/ml/checkpoints."""
    spec = jobs_of(2, jobInputs=[INPUTS], distribution={"kind": kind})
    return submit(system, name, spec, "script-mode/checkpoints/epoch-*.pt", **given)


def model(system: System, run_id: str) -> bytes:
    """The exported model, as people get it; it is listed, and the export is verified."""
    assert system.api.run(run_id)["export"]["state"] == "verified", system.story(run_id)
    found = {
        one["key"]: one for page in system.api.outputs(run_id, urls=True) for one in page["outputs"]
    }
    answer = httpx.get(found[MODEL]["url"])
    assert answer.status_code == 200, answer.text
    assert hashlib.sha256(answer.content).hexdigest() == found[MODEL]["sha256"]
    return answer.content


@pytest.mark.usefixtures("_points")
def test_a_script_unchanged_goes_on_by_its_own_checkpoint_when_a_host_is_lost(
    system: System,
) -> None:
    skip_where_there_are_no_hosts()
    broken = in_a_job(system, "script-broken", **{"epochs": 40, "epoch-seconds": 0.4})
    run = system.until(broken, "two checkpoints", lambda _: len(system.whole(broken)) >= 2, 180)
    whole = in_a_job(system, "script-whole", epochs=40)

    system.fault("kill-host", job=run["attempts"][0]["jobId"], host="algo-2")

    run = system.ended(broken, "Succeeded", 300)
    first, second = run["attempts"]
    assert first["outcome"] == "lost", system.story(broken)
    assert second["outcome"] == "succeeded", system.story(broken)
    log = system.api._call("GET", f"/v1/runs/{broken}/logs")["text"]
    assert "goes on after epoch" in log
    system.ended(whole, "Succeeded", 240)
    assert model(system, broken) == model(system, whole)
    # SageMaker's own archive of the same model has it, too.
    job = system.aws("sagemaker").describe_training_job(TrainingJobName=second["jobId"])
    assert job["ModelArtifacts"]["S3ModelArtifacts"].endswith("model.tar.gz")
    assert job["HyperParameters"]["epochs"] == "40"
    system.assert_gone(system.api.cluster(run["clusterName"]))


@pytest.mark.long
@pytest.mark.usefixtures("_points")
def test_the_same_script_has_the_same_model_under_awss_launcher_and_on_slurm(
    system: System, shared: str
) -> None:
    skip_where_there_are_no_hosts()
    given = {"epochs": 10}
    plain = in_a_job(system, "script-none", **given)
    torchrun = in_a_job(system, "script-torchrun", "torchrun", **given)
    # On Slurm nobody may write to /opt/ml: the script is told where its checkpoints go.
    own = {**given, "checkpoint-path": "checkpoints"}
    slurm = submit(system, "script-slurm", shared, "checkpoints/epoch-*.pt", **own)

    for run_id in (plain, torchrun, slurm):
        system.ended(run_id, "Succeeded", 300)

    assert model(system, plain) == model(system, torchrun) == model(system, slurm)
