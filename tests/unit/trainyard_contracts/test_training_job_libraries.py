"""A library of parallelism is refused where no image has it, or no type runs it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.training_jobs import spec

from trainyard.http.problems import invalid_request

TRAINIUM = {"instanceType": "ml.trn1.32xlarge"}
SMP = {"kind": "smp", "processesPerHost": 8}
GROUPS: dict[str, Any] = {
    "instanceType": None,
    "instanceCount": None,
    "instanceGroups": [
        {"name": "gpu", "instanceType": "ml.p4d.24xlarge", "instanceCount": 2},
        {"name": "cpu", "instanceType": "ml.c5.18xlarge", "instanceCount": 1},
    ],
}


def framework(name: str, version: str, **more: Any) -> dict[str, Any]:
    return {"framework": {"name": name, "version": version, **more}}


def hugging_face(version: str, base: str, base_version: str) -> dict[str, Any]:
    return framework("huggingface", version, base={"name": base, "version": base_version})


def launch(kind: str, **options: Any) -> dict[str, Any]:
    return {"distribution": {"kind": kind, **options}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        # SMDDP
        (
            launch("smddp") | {"instanceType": "ml.g5.12xlarge"},
            "distribution.kind: the data parallelism library (SMDDP) does not run on ml.g5",
        ),
        (
            launch("pytorchddp") | {"instanceType": "ml.p5.48xlarge"},
            "distribution.kind: the data parallelism library (SMDDP) does not run on ml.p5",
        ),
        (
            launch("torchrun", library="smddp") | {"instanceType": "ml.p5.48xlarge"},
            "distribution.library: the data parallelism library (SMDDP) does not run on",
        ),
        (
            launch("smddp") | framework("pytorch", "2.4.0"),
            "distribution.kind: AWS's image of pytorch 2.4.0 has no data parallelism library",
        ),
        (
            launch("smddp") | framework("tensorflow", "2.12"),
            "distribution.kind: AWS's image of tensorflow 2.12 has no data parallelism library",
        ),
        (
            launch("smddp") | hugging_face("4.56.2", "pytorch", "2.8.0"),
            "distribution.kind: AWS's image of pytorch 2.8.0 has no data parallelism library",
        ),
        # SMP
        (
            launch(**SMP) | framework("pytorch", "2.1.0"),
            "distribution.kind: AWS's image of pytorch 2.1.0 has no 'smp'",
        ),
        (
            launch(**SMP) | framework("pytorch", "1.13.1") | {"instanceType": "ml.p5.48xlarge"},
            "distribution.kind: the model parallelism library's version 1 does not run on",
        ),
        (
            launch("smp", processesPerHost=9) | framework("pytorch", "1.13.1"),
            "distribution.processesPerHost: 9 is more than the 8 GPUs of a node",
        ),
        (
            launch(**SMP, parameters={"partitions": 8, "tensor_parallel_degree": 4})
            | framework("pytorch", "1.13.1"),
            "distribution.parameters: split a model over 32 processes, and 2 nodes with",
        ),
        (
            launch(**SMP, parameters={"microbatches": 0}) | framework("pytorch", "1.13.1"),
            "distribution.parameters: microbatches must be a whole number",
        ),
        (
            launch(**SMP, parameters={"placement_strategy": "near"})
            | framework("pytorch", "1.13.1"),
            "distribution.parameters: placement_strategy must be one of spread, cluster",
        ),
        (
            launch(**SMP, parameters={"ddp": True, "horovod": True})
            | framework("pytorch", "1.13.1"),
            "distribution.parameters: ddp and horovod exclude each other",
        ),
        (
            launch(**SMP, parameters={"auto_partition": False}) | framework("pytorch", "1.13.1"),
            "distribution.parameters: auto_partition false needs default_partition",
        ),
        (
            GROUPS | launch("smddp", instanceGroup="cpu"),
            "distribution.kind: the data parallelism library (SMDDP) does not run on ml.c5",
        ),
        (
            launch("smddp") | {"framework": None, "image": "x:2.0.1-gpu-py310-cu121"},
            "image: has no launcher for the library",
        ),
    ],
)
def test_a_library_that_cannot_be_is_refused_with_its_field(
    fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        spec(**fields)
    first = invalid_request(refused.value.errors()).errors[0]
    assert f"{first.field}: {first.message}".startswith(words)


@pytest.mark.parametrize(
    "fields",
    [
        launch("torchrun", library="smddp")
        | {"framework": None, "image": "x:2.0.1-gpu-py310-cu121"},
        launch("smddp") | {"framework": None, "image": "mine:1"},
        launch(**SMP, parameters={"partitions": 16}) | framework("pytorch", "1.13.1"),
        framework("tensorflow", "2.6.3") | launch(**SMP),
    ],
)
def test_a_library_that_the_image_has_is_taken(fields: dict[str, Any]) -> None:
    assert spec(**fields).backend == "training-job"
