"""A launch that AWS's image or the instance type cannot do is refused with the reason."""

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
        # Trainium
        (TRAINIUM | launch("mpi"), "distribution.kind: 'mpi' does not run on Trainium"),
        (TRAINIUM | launch("smddp"), "distribution.kind: 'smddp' does not run on Trainium"),
        (
            TRAINIUM | launch("torchrun", library="smddp"),
            "distribution.library: 'smddp' does not run on Trainium",
        ),
        (TRAINIUM | framework("tensorflow", "2.13"), "framework.name: AWS's images of tensorflow"),
        (
            TRAINIUM | hugging_face("4.56.2", "pytorch", "2.8.0"),
            "framework.name: AWS's images of huggingface",
        ),
        (framework("pytorch-neuronx", "2.1.2"), "framework.name: pytorch-neuronx is for Trainium"),
        # launchers and images
        (
            framework("tensorflow", "2.13") | launch("torchrun"),
            "distribution.kind: AWS's image of tensorflow does not know 'torchrun'",
        ),
        (
            framework("mxnet", "1.9.0") | launch("smp", processesPerHost=8),
            "distribution.kind: AWS's image of mxnet does not know 'smp'",
        ),
        (
            hugging_face("4.56.2", "pytorch", "2.8.0") | launch("torchrun", library="smp"),
            "distribution.library: AWS's Hugging Face images take none",
        ),
        (framework("pytorch", "1.12.1") | launch("torchrun"), "framework.version: AWS's image of"),
        # groups
        (launch("mpi", instanceGroup="gpu"), "distribution.instanceGroup: needs instanceGroups"),
        (GROUPS | launch("mpi"), "distribution.instanceGroup: is needed"),
        (GROUPS | launch("mpi", instanceGroup="tpu"), "distribution.instanceGroup: there is no"),
        (GROUPS | launch("none", instanceGroup="gpu"), "distribution.instanceGroup: is no option"),
        (
            GROUPS | launch("parameter-server", instanceGroup="gpu"),
            "instanceGroups: run with mpi, smddp, smp or torchrun",
        ),
        (
            GROUPS
            | framework("pytorch", "2.3.1")
            | launch("torchrun", library="smp", instanceGroup="gpu"),
            "instanceGroups: run with mpi, smddp, smp or torchrun",
        ),
        (
            GROUPS | framework("mxnet", "1.9.0") | launch("mpi", instanceGroup="gpu"),
            "instanceGroups: AWS's image of mxnet knows no groups",
        ),
    ],
)
def test_a_launch_that_cannot_be_is_refused_with_its_field(
    fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        spec(**fields)
    first = invalid_request(refused.value.errors()).errors[0]
    assert f"{first.field}: {first.message}".startswith(words)


@pytest.mark.parametrize(
    "fields",
    [
        TRAINIUM | framework("pytorch", "1.11.0") | launch("torchrun"),
        TRAINIUM | framework("pytorch-neuronx", "2.1.2") | launch("torchrun"),
        framework("pytorch", "1.13") | launch("torchrun"),
        framework("tensorflow", "2.11.0") | launch("smddp"),
        hugging_face("4.28.1", "pytorch", "2.0.0") | launch("smddp"),
        framework("pytorch", "2.3.1") | launch("torchrun", library="smp"),
        launch(**SMP, parameters={"partitions": 16}) | framework("pytorch", "1.13.1"),
        GROUPS | launch("torchrun", instanceGroup="gpu"),
        GROUPS,
    ],
)
def test_a_launch_that_aws_can_do_is_taken(fields: dict[str, Any]) -> None:
    assert spec(**fields).backend == "training-job"


def test_the_type_of_a_group_that_the_launch_does_not_use_is_not_judged() -> None:
    assert spec(**GROUPS, **launch("smddp", instanceGroup="gpu")).launch_nodes == 2


def test_an_image_of_one_s_own_may_have_any_library() -> None:
    made = spec(framework=None, image="mine:1", **launch("smddp"))
    assert made.distribution.data_parallel
