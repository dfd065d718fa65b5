"""Requests that AWS's SDK was recorded to send are ours, field by field, and fit AWS's model."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.botocore_model import request_problems
from tests.support.training_jobs import RECORDED, intent, recorded, spec, stored_spec

from trainyard.backends.training_job.intent import Intent
from trainyard.backends.training_job.request import create_training_job_request
from trainyard.domain.errors import InvalidRequest

NEURONX = (
    "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training-neuronx:"
    "2.1.2-neuronx-py310-sdk2.20.2-ubuntu20.04"
)
NEWER = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:"
    "2.9.0-gpu-py312-cu130-ubuntu22.04-sagemaker"
)
TRAINIUM = {"instanceType": "ml.trn1.32xlarge"}


def pytorch(version: str, python: str) -> dict[str, str]:
    return {"name": "pytorch", "version": version, "pythonVersion": python}


def kind(name: str, **options: Any) -> dict[str, Any]:
    return {"kind": name, **options}


MADE: dict[str, Intent] = {
    "pytorch_none": intent(),
    "torch_distributed": intent(spec(distribution=kind("torchrun"))),
    "pytorchddp": intent(spec(distribution=kind("pytorchddp"))),
    "smddp_pt2.1": intent(spec(distribution=kind("smddp"))),
    "torch_distributed_smddp_p4d": intent(
        spec(framework=pytorch("2.0.1", "py310"), distribution=kind("torchrun", library="smddp"))
    ),
    # The SDK accepts the type; a spec does not, so it comes as one that was stored before.
    "smddp_wrong_instance_g5": intent(
        stored_spec(
            framework=pytorch("2.0.1", "py310"),
            instanceType="ml.g5.12xlarge",
            distribution=kind("smddp"),
        )
    ),
    "smp_v1_mpi": intent(
        spec(
            framework=pytorch("1.13.1", "py39"),
            distribution=kind(
                "smp",
                processesPerHost=8,
                customMpiOptions="--mca btl_vader_single_copy_mechanism none",
                parameters={"partitions": 2, "microbatches": 4, "ddp": True},
            ),
        )
    ),
    "parameter_server_pt": intent(spec(distribution=kind("parameter-server"))),
    "parameter_server_tf": intent(
        spec(
            framework={"name": "tensorflow", "version": "2.13", "pythonVersion": "py310"},
            distribution=kind("parameter-server"),
        )
    ),
    "pt2.9_image_uri_torch_distributed": intent(
        spec(framework=None, image=NEWER, distribution=kind("torchrun"))
    ),
    "trn1_image_uri_torch_distributed": intent(
        spec(framework=None, image=NEURONX, distribution=kind("torchrun"), **TRAINIUM),
        environment={"RUN_NEURON_PARALLEL_COMPILE": "1", "XLA_USE_BF16": "1"},
    ),
    # Recorded with version 1.13.1, for which the SDK takes the only image it knows.
    "trn1_torch_distributed": intent(
        spec(framework=pytorch("1.11.0", "py38"), distribution=kind("torchrun"), **TRAINIUM)
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_recorded_request_of_the_sdk_is_ours_field_by_field(name: str) -> None:
    assert create_training_job_request(MADE[name]) == recorded(name)


def test_every_recorded_request_is_compared() -> None:
    names = {path.stem for path in RECORDED.glob("*.json")}
    assert set(MADE) == {name for name in names if not name.endswith(".error")}


@pytest.mark.parametrize("name", MADE)
def test_a_recorded_request_fits_the_services_model(name: str) -> None:
    request = create_training_job_request(MADE[name])
    assert request_problems("sagemaker", "CreateTrainingJob", request) == []


@pytest.mark.parametrize(
    ("name", "framework", "instance_type"),
    [
        ("trn1_torch_distributed_pt2.1", pytorch("2.1.2", "py310"), "ml.trn1.32xlarge"),
        ("trn1_torch_distributed_pt2.8", pytorch("2.8.0", "py312"), "ml.trn1.32xlarge"),
        ("trn2_torch_distributed_pt2.8", pytorch("2.8.0", "py312"), "ml.trn2.48xlarge"),
    ],
)
def test_a_version_that_the_sdk_refuses_on_trainium_is_refused_with_its_field(
    name: str, framework: dict[str, str], instance_type: str
) -> None:
    assert recorded(f"{name}.error")["error"] == "ValueError"
    wanted = spec(framework=framework, instanceType=instance_type, distribution=kind("torchrun"))
    with pytest.raises(InvalidRequest) as refused:
        create_training_job_request(intent(wanted))
    assert [error.field for error in refused.value.errors] == ["framework.version"]
    assert "image takes any URI" in refused.value.detail


def test_what_the_sdk_refused_is_all_tested() -> None:
    refused = {path.stem.removesuffix(".error") for path in RECORDED.glob("*.error.json")}
    assert refused == {
        "trn1_pytorchddp",  # in the spec's own test
        "trn1_torch_distributed_pt2.1",
        "trn1_torch_distributed_pt2.8",
        "trn2_torch_distributed_pt2.8",
    }
