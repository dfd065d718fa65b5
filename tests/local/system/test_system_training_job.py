"""Runs that are SageMaker training jobs: from POST /v1/runs to verified exports, through faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.support.job_cloud import skip_where_there_are_no_hosts
from tests.support.repositories import Repository
from tests.support.repository import ROOT
from tests.support.system import Json, System

from trainyard_cli.problems import ApiProblem

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-cpu-py311-sagemaker"
pytestmark = pytest.mark.usefixtures("_hosts")


@pytest.fixture
def _hosts() -> None:
    skip_where_there_are_no_hosts()


def jobs_of(nodes: int = 1, **more: object) -> Json:
    """A cluster's spec: so many nodes in each job."""
    return {
        "backend": "training-job",
        "name": "jobs",
        "instanceType": "ml.c5.xlarge",
        "instanceCount": nodes,
        "image": IMAGE,
        "maxRuntimeSeconds": 600,
        **more,
    }


def ddp(nodes: int, steps: int, step_seconds: float = 0.05) -> Json:
    arguments = ["--steps", steps, "--step-seconds", step_seconds]
    return {"nodes": nodes, "module": "trainyard_trainers.ddp", "arguments": arguments}


def program(text: str) -> Json:
    return {"nodes": 1, "script": "train.py", "files": {"train.py": text}}


def weights(system: System, run_id: str) -> dict[str, str]:
    """SHA-256 by path of the exported final model's files."""
    key = f"{system.export_prefix(run_id)}export-manifest.json"
    body = system.aws("s3").get_object(Bucket=system.local["bucket"], Key=key)["Body"].read()
    return {
        one["key"]: one["sha256"]
        for one in json.loads(body)["objects"]
        if one["key"].startswith("final/") and not one["key"].endswith("manifest.json")
    }


def exported(system: System, run_id: str, name: str) -> bytes:
    key = f"{system.export_prefix(run_id)}{name}"
    body = system.aws("s3").get_object(Bucket=system.local["bucket"], Key=key)["Body"].read()
    return bytes(body)


def trained(system: System, name: str, nodes: int, steps: int) -> str:
    """A run of the ddp trainer that is under way; its id."""
    every = {"everySteps": 10, "keep": 3}
    return system.submit(name, ddp(nodes, steps, 0.1), jobs_of(nodes), checkpoint=every)


def test_a_run_goes_on_in_another_job_when_a_host_is_lost_and_ends_with_the_same_weights(
    system: System,
) -> None:
    broken = trained(system, "broken", 2, 60)
    system.training(broken, checkpoints=1, seconds=120)
    job = system.api.run(broken)["attempts"][0]["jobId"]
    whole = trained(system, "whole", 2, 60)

    system.fault("kill-host", job=job, host="algo-2")

    run = system.ended(broken, "Succeeded", 240)
    first, second = run["attempts"]
    assert first["outcome"] == "lost", system.story(broken)
    assert second["resumedFrom"] >= 10, system.story(broken)
    assert second["nodes"] == ["algo-1", "algo-2"]
    assert [one["cause"] for one in run["incidents"]] == ["node-lost"]
    assert run["export"]["state"] == "verified"
    system.ended(whole, "Succeeded", 240)
    assert weights(system, broken) == weights(system, whole) != {}
    system.assert_gone(system.api.cluster(run["clusterName"]))


def test_the_example_is_a_run_and_a_dry_run_shows_its_job(system: System) -> None:
    example = yaml.safe_load((ROOT / "examples/training-job.yaml").read_text())
    shown = system.api.plan_run(example)
    assert shown["operation"] == "CreateTrainingJob"
    assert "pytorch-training:2.8.0" in shown["request"]["AlgorithmSpecification"]["TrainingImage"]
    assert shown["batchScript"] is None

    run = system.ended(str(system.api.submit_run(example)["id"]), "Succeeded", 240)

    assert run["export"]["state"] == "verified"
    logs = system.api._call("GET", f"/v1/runs/{run['id']}/logs")
    assert logs["source"] == "cloudwatch"
    assert "training is complete after step 80" in logs["text"]


def test_the_same_error_twice_ends_the_run_with_the_program_s_own_words(system: System) -> None:
    run_id = system.submit("fails", program("raise RuntimeError('a banana')"), jobs_of())

    run = system.ended(run_id, "Failed", 180)

    assert "RuntimeError: a banana" in run["problem"]["detail"], system.story(run_id)
    assert len(run["attempts"]) == 2


def test_a_cancelled_run_stops_its_job_saves_and_gives_its_warm_pool_back(system: System) -> None:
    spec = jobs_of(1, warmPoolSeconds=600)
    run_id = system.submit("cancelled", ddp(1, 4000), spec, checkpoint={"everySteps": 100000})
    system.training(run_id, seconds=120)
    [node] = system.api.nodes(system.api.run(run_id)["clusterName"])
    assert (node["name"], node["status"]) == ("algo-1", "Running")

    system.api.cancel_run(run_id)

    run = system.ended(run_id, "Cancelled", 240)
    [saved] = system.whole(run_id)
    assert saved["step"] > 0
    assert run["export"]["state"] == "verified"
    [job] = system.aws("sagemaker").list_training_jobs(NameContains=run["attempts"][0]["jobId"])[
        "TrainingJobSummaries"
    ]
    assert job["WarmPoolStatus"]["Status"] == "Terminated"


@pytest.mark.long
def test_nodes_that_aws_takes_back_are_no_failure_of_the_run(system: System) -> None:
    spec = jobs_of(1, spot={"maxWaitSeconds": 600})
    run_id = system.submit("spot", ddp(1, 120, 0.1), spec, checkpoint={"everySteps": 10})
    system.training(run_id, checkpoints=1, seconds=120)

    system.fault("interrupt-spot", job=system.api.run(run_id)["attempts"][0]["jobId"])

    run = system.ended(run_id, "Succeeded", 300)
    assert run["incidents"] == [], system.story(run_id)
    said = [entry["message"] for entry in system.timeline(run_id, "JobStage")]
    assert any("AWS took the spot nodes back" in words for words in said)


@pytest.mark.long
def test_a_run_that_finds_no_nodes_says_so_and_leaves_nothing(system: System) -> None:
    rare = "ml.c5.9xlarge"
    system.fault("no-capacity", instanceType=rare)
    asked = {"waitForNodeSeconds": 0}
    spec = jobs_of(1, instanceType=rare)
    run_id = system.submit("none", ddp(1, 4), spec, recovery=asked)

    run = system.ended(run_id, "Failed", 180)

    assert run["problem"]["code"] == "no-capacity", system.story(run_id)
    assert "CapacityError" in run["problem"]["detail"]
    system.assert_gone(system.api.cluster(run["clusterName"]))


def test_what_a_program_leaves_is_there_at_the_next_attempt_and_in_the_export(
    system: System,
) -> None:
    text = """
import os, pathlib
output = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
attempt = os.environ["TRAINYARD_ATTEMPT"]
(output / f"seen-{attempt}.txt").write_text(" ".join(sorted(map(str, os.listdir(output)))))
if attempt == "1":
    raise RuntimeError("once")
"""
    run_id = system.submit("leaves", program(text), jobs_of())

    system.ended(run_id, "Succeeded", 180)

    names = [key.rpartition("/")[2] for key in system.exported(run_id) if "/output/" in key]
    assert names == ["seen-1.txt", "seen-2.txt"], system.story(run_id)
    assert b"seen-1.txt" in exported(system, run_id, "output/seen-2.txt")


READS = """
import os, pathlib
found = sorted(path for path in pathlib.Path("data").rglob("*") if path.is_file())
out = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
out.joinpath("found.txt").write_text(" ".join(f"{path}={path.read_text()}" for path in found))
"""


def test_a_program_finds_the_data_that_its_run_names_and_a_run_may_read_no_other(
    system: System,
) -> None:
    s3 = system.aws("s3")
    s3.create_bucket(Bucket="sagemaker-of-jobs")
    for key in ("v1/a.txt", "v1/deep/b.txt", "v2/c.txt"):
        s3.put_object(Bucket="sagemaker-of-jobs", Key=key, Body=key[-5:].encode())
    spec = jobs_of(jobInputs=["s3://sagemaker-of-jobs/v1/"])
    wanted = [{"source": "s3://sagemaker-of-jobs/v1/", "path": "data"}]
    with pytest.raises(ApiProblem, match="name it in jobInputs"):
        system.submit("other", program(READS), spec, inputs=[
            {"source": "s3://sagemaker-of-jobs/v2/", "path": "data"}
        ])  # fmt: skip

    run_id = system.submit("reads", program(READS), spec, inputs=wanted)

    system.ended(run_id, "Succeeded", 180)
    assert exported(system, run_id, "output/found.txt") == b"data/a.txt=a.txt data/deep/b.txt=b.txt"
    # Data are never exported.
    assert not [key for key in system.exported(run_id) if "/data/" in key], system.story(run_id)


@pytest.mark.long
def test_a_run_begins_with_the_checkpoint_of_another_and_ends_with_the_same_weights(
    system: System,
) -> None:
    every = {"everySteps": 10, "keep": 9}
    older = system.submit("older", ddp(2, 40), jobs_of(2), checkpoint=every)
    system.ended(older, "Succeeded", 240)
    step = min(found["step"] for found in system.whole(older))
    assert 0 < step < 40

    begin = {**every, "startFrom": {"run": older, "step": step}}
    newer = system.submit("newer", ddp(2, 40), jobs_of(2), checkpoint=begin)

    run = system.ended(newer, "Succeeded", 240)
    assert run["attempts"][0]["resumedFrom"] == step, system.story(newer)
    assert weights(system, newer) == weights(system, older) != {}
    assert step in [found["step"] for found in system.whole(newer)]


@pytest.mark.long
def test_the_commit_of_a_repository_runs_in_every_attempt_whatever_becomes_of_its_branch(
    system: System, tmp_path: Path
) -> None:
    text = """
import os, pathlib
out = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
out.joinpath(f"of-attempt-{os.environ['TRAINYARD_ATTEMPT']}").write_text("one")
if os.environ["TRAINYARD_ATTEMPT"] == "1":
    raise RuntimeError("once")
"""
    source = Repository(tmp_path / "r.git")
    commit = source.commit({"train.py": text.encode()})
    # A container of the local cloud reaches no server; it reads the repository as a channel.
    s3 = system.aws("s3")
    s3.create_bucket(Bucket="sagemaker-repository")
    for path in filter(Path.is_file, source.path.rglob("*")):
        key = f"r.git/{path.relative_to(source.path).as_posix()}"
        s3.put_object(Bucket="sagemaker-repository", Key=key, Body=path.read_bytes())
    s3.put_object(Bucket="sagemaker-repository", Key="r.git/refs/tags/.keep", Body=b"")
    channel = {"name": "code", "s3": {"uri": "s3://sagemaker-repository/r.git/"}}
    job = {
        "nodes": 2,
        "script": "train.py",
        "git": {"url": "/opt/ml/input/data/code", "ref": "main"},
    }

    run_id = system.submit("git", job, jobs_of(2, channels=[channel]))

    system.ended(run_id, "Succeeded", 240)
    assert exported(system, run_id, "output/of-attempt-2") == b"one", system.story(run_id)
    said = [entry["message"] for entry in system.timeline(run_id, "CodeFetched")]
    assert said == [f"The run's code is commit {commit} of /opt/ml/input/data/code (main)."]
    assert not [key for key in system.exported(run_id) if key.endswith("train.py")]
