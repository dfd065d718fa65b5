"""An image that something here stands for, and what its container runs."""

from __future__ import annotations

import pytest

from trainyard_local.training_jobs import images

DLC = "763104351884.dkr.ecr.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    ("image", "framework"),
    [
        (f"{DLC}/pytorch-training:2.9.0-cpu-py311", "pytorch"),
        (f"{DLC}/huggingface-pytorch-training@sha256:abc", "pytorch"),
        ("public.ecr.aws/docker/library/python:3.11", "python"),
        (f"{DLC}/pytorch-training-neuronx:2.1.2", ""),
        (f"{DLC}/tensorflow-training:2.18", ""),
        ("658645717510.dkr.ecr.us-west-2.amazonaws.com/smdistributed-modelparallel:2.4", ""),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:pytorch", ""),
    ],
)
def test_only_images_of_pytorch_and_python_are_stood_for(image: str, framework: str) -> None:
    assert images.framework(image) == framework
    refused = images.refusal(image, ["bash"], {})
    assert (refused == "") is (framework != "")


def test_an_image_of_plain_python_needs_an_entry_point() -> None:
    assert "give the program to run" in images.refusal("python:3.11", [], {})


@pytest.mark.parametrize("value", ["true", '"true"'])
def test_what_would_start_mpi_is_refused(value: str) -> None:
    parameters = {"sagemaker_mpi_enabled": value, "sagemaker_torch_distributed_enabled": "true"}
    refused = images.refusal(f"{DLC}/pytorch-training:2.9", [], parameters)
    assert refused.startswith("hyperParameters.sagemaker_mpi_enabled: it starts mpirun")
    assert images.refusal(f"{DLC}/pytorch-training:2.9", ["bash"], parameters) == ""


def test_entry_point_and_arguments_run_as_given_and_else_the_toolkit() -> None:
    given = {"ContainerEntrypoint": ["/bin/bash"], "ContainerArguments": ["-c", "true"]}
    assert images.command(given) == ["/bin/bash", "-c", "true"]
    assert images.command({}) == ["train"]
    assert images.variables("pytorch-training:2")["SAGEMAKER_TRAINING_MODULE"] == images.FRAMEWORK
    assert "SAGEMAKER_TRAINING_MODULE" not in images.variables("python:3")
