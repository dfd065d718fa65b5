"""Training jobs through AWS's own toolkits: torchrun on two hosts, and a program that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.job_cloud import BUCKET, IMAGE, JobCloud, job_cloud, untar
from tests.support.repository import ROOT

FIXTURE = ROOT / "tests" / "data" / "training_jobs" / "torch_distributed.json"
ALL_REDUCE = """
import json, os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
found = {
    "total": total.item(),
    "world": dist.get_world_size(),
    "host": os.environ["SM_CURRENT_HOST"],
    "hosts": json.loads(os.environ["SM_HOSTS"]),
    "interface": os.environ["SM_NETWORK_INTERFACE_NAME"],
    "train": open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "words.txt")).read(),
}
with open(os.path.join(os.environ["SM_MODEL_DIR"], f"{found['host']}.json"), "w") as file:
    json.dump(found, file)
if dist.get_rank() == 0:
    print("rank 0 is ready", flush=True)
dist.barrier()
dist.destroy_process_group()
"""
FAILS = """
import sys
print("here it fails", flush=True)
raise ValueError("the learning rate is a banana")
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobCloud]:
    with job_cloud(tmp_path_factory.mktemp("jobs")) as up:
        yield up


def recorded(cloud: JobCloud, name: str) -> dict[str, Any]:
    """The request that AWS's SDK made, for this cloud's bucket and role, and small."""
    request = json.loads(FIXTURE.read_text())
    request |= {"TrainingJobName": name, "RoleArn": cloud.role}
    request["AlgorithmSpecification"]["TrainingImage"] = IMAGE
    request["ResourceConfig"]["InstanceType"] = "ml.c5.xlarge"
    request["OutputDataConfig"]["S3OutputPath"] = f"s3://{BUCKET}/jobs/out"
    source = request["InputDataConfig"][0]["DataSource"]["S3DataSource"]
    source["S3Uri"] = f"s3://{BUCKET}/jobs/in/train"
    return request


def test_two_hosts_reduce_over_their_own_network_by_the_toolkits_torchrun(cloud: JobCloud) -> None:
    cloud.put("jobs/in/train/words.txt", "alpha beta")
    request = recorded(cloud, "two-hosts")
    request["HyperParameters"] |= cloud.program("two-hosts", ALL_REDUCE)
    cloud.sagemaker.create_training_job(**request)

    job = cloud.until("two-hosts", "Completed")

    assert job["ResourceConfig"]["InstanceCount"] == 2
    model = untar(cloud.objects("jobs/out/two-hosts/output/model.tar.gz")[""])
    for host in ("algo-1", "algo-2"):
        assert json.loads(model[f"{host}.json"]) == {
            "total": 3.0,
            "world": 2,
            "host": host,
            "hosts": ["algo-1", "algo-2"],
            "interface": "eth0",
            "train": "alpha beta",
        }
    assert "Invoking TorchDistributed" in cloud.log("two-hosts")
    assert len(cloud.streams("two-hosts")) == 2


def test_a_program_that_fails_gives_the_reason_that_the_toolkit_wrote(cloud: JobCloud) -> None:
    request = cloud.request("fails", HyperParameters=cloud.program("fails", FAILS))
    cloud.sagemaker.create_training_job(**request)

    job = cloud.until("fails", "Failed")

    reason = job["FailureReason"]
    assert reason.startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 1\n")
    assert "the learning rate is a banana" in reason
    assert reason.endswith(", exit code: 1")
    assert "here it fails" in cloud.log("fails")
    assert "ModelArtifacts" not in job
    assert cloud.of_jobs() == []
