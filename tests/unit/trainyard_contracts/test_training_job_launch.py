"""Options of a launcher belong to it, and a framework has what its images need."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from trainyard.http.problems import invalid_request
from trainyard_contracts.training_job_launch import LONGEST_VALUE, Distribution, Framework


def refusal(model: type[BaseModel], **fields: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(fields)
    first = invalid_request(refused.value.errors()).errors[0]
    return f"{first.field}: {first.message}"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "horovod"}, "kind: must be one of 'none', 'torchrun'"),
        ({"kind": "torchrun", "processesPerHost": 8}, "processesPerHost: is no option of"),
        ({"kind": "mpi", "library": "smddp"}, "library: is no option of distribution 'mpi'"),
        ({"kind": "mpi", "parameters": {"a": 1}}, "parameters: is no option of"),
        ({"kind": "none", "customMpiOptions": "-v"}, "customMpiOptions: is no option of"),
        ({"kind": "smp"}, "processesPerHost: smp runs under mpi and needs it"),
        ({"kind": "mpi", "processesPerHost": 0}, "processesPerHost: must be greater than"),
        ({"kind": "mpi", "customMpiOptions": "a\nb"}, "customMpiOptions: must be options"),
        ({"kind": "torchrun", "parameters": {"a": 1}}, "parameters: are smp's"),
        ({"kind": "torchrun", "customMpiOptions": "-v"}, "customMpiOptions: are smddp's"),
        (
            {"kind": "torchrun", "library": "smp", "parameters": {"a": "x" * LONGEST_VALUE}},
            "parameters: are 2509 characters as JSON",
        ),
    ],
)
def test_an_option_of_another_launcher_is_refused(fields: dict[str, Any], words: str) -> None:
    assert refusal(Distribution, **fields).startswith(words)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "jax", "version": "1.0"}, "name: must be one of 'pytorch'"),
        ({"name": "pytorch", "version": "latest"}, "version: must be a version such as 2.8.0"),
        (
            {"name": "pytorch", "version": "2.8.0", "pythonVersion": "3.12"},
            "pythonVersion: must be a Python such as py310",
        ),
        ({"name": "huggingface", "version": "4.56.2"}, "base: huggingface needs it"),
        (
            {
                "name": "pytorch",
                "version": "2.8.0",
                "base": {"name": "pytorch", "version": "2.8.0"},
            },
            "base: huggingface needs it (name pytorch or tensorflow, and its version), and no",
        ),
        (
            {
                "name": "huggingface",
                "version": "4.56.2",
                "base": {"name": "pytorch", "version": "2.8"},
            },
            "base.version: give both versions whole",
        ),
        ({"name": "pytorch", "version": "2.8", "modelDir": "/x"}, "modelDir: is tensorflow's"),
        (
            {"name": "tensorflow", "version": "2.13", "modelDir": "here"},
            "modelDir: must be s3://BUCKET/KEY or an absolute path",
        ),
    ],
)
def test_a_framework_that_no_image_is_of_is_refused(fields: dict[str, Any], words: str) -> None:
    assert refusal(Framework, **fields).startswith(words)


@pytest.mark.parametrize(
    ("fields", "data_parallel", "model_parallel"),
    [
        ({"kind": "torchrun"}, False, ""),
        ({"kind": "torchrun", "library": "smddp"}, True, ""),
        ({"kind": "torchrun", "library": "smp"}, False, "v2"),
        ({"kind": "smddp"}, True, ""),
        ({"kind": "pytorchddp"}, True, ""),
        ({"kind": "smp", "processesPerHost": 8}, False, "v1"),
        ({"kind": "mpi"}, False, ""),
    ],
)
def test_a_distribution_says_which_libraries_it_runs(
    fields: dict[str, Any], data_parallel: bool, model_parallel: str
) -> None:
    made = Distribution.model_validate(fields)
    assert (made.data_parallel, made.model_parallel) == (data_parallel, model_parallel)


def test_a_program_in_a_hugging_face_image_meets_the_framework_below() -> None:
    made = Framework.model_validate(
        {
            "name": "huggingface",
            "version": "4.56.2",
            "base": {"name": "pytorch", "version": "2.8.0"},
        }
    )
    assert made.runs == ("pytorch", "2.8.0")
