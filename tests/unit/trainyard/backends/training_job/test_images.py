"""An image is found by framework, version, region and type, and what is not known is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainyard.backends.training_job import images
from trainyard.backends.training_job.image_catalog import known
from trainyard.backends.training_job.images import image_uri, nearest
from trainyard.domain.errors import InvalidRequest
from trainyard_contracts.training_job_launch import Distribution, Framework

P4D, C5 = "ml.p4d.24xlarge", "ml.c5.xlarge"


def uri(
    name: str,
    version: str,
    instance_type: str = P4D,
    region: str = "us-east-1",
    distribution: dict[str, Any] | None = None,
    **more: Any,
) -> str:
    framework = Framework.model_validate({"name": name, "version": version, **more})
    how = Distribution.model_validate(distribution or {})
    return image_uri(framework, region, instance_type, how)


def refusal(*given: Any, **more: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        uri(*given, **more)
    (error,) = refused.value.errors
    return f"{error.field}: {error.message}"


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("us-east-1", "763104351884.dkr.ecr.us-east-1.amazonaws.com"),
        ("eu-south-1", "692866216735.dkr.ecr.eu-south-1.amazonaws.com"),
        ("il-central-1", "780543022126.dkr.ecr.il-central-1.amazonaws.com"),
        ("cn-north-1", "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn"),
        ("cn-northwest-1", "727897471807.dkr.ecr.cn-northwest-1.amazonaws.com.cn"),
        ("us-gov-west-1", "442386744353.dkr.ecr.us-gov-west-1.amazonaws.com"),
        ("us-gov-east-1", "446045086412.dkr.ecr.us-gov-east-1.amazonaws.com"),
    ],
)
def test_each_region_has_its_account_and_suffix(region: str, registry: str) -> None:
    assert uri("pytorch", "2.8.0", region=region) == f"{registry}/pytorch-training:2.8.0-gpu-py312"


@pytest.mark.parametrize(
    ("given", "more", "end"),
    [
        (("pytorch", "2.8", P4D), {}, "pytorch-training:2.8-gpu-py312"),
        (("pytorch", "2.8.0", C5), {}, "pytorch-training:2.8.0-cpu-py312"),
        (("tensorflow", "2.19.0", P4D), {}, "tensorflow-training:2.19.0-gpu-py312"),
        (("mxnet", "1.9.0", C5), {}, "mxnet-training:1.9.0-cpu-py38"),
        (
            ("pytorch", "1.6.0", P4D),
            {"pythonVersion": "py36"},
            "pytorch-training:1.6.0-gpu-py36-cu110-ubuntu18.04",
        ),
        (
            ("pytorch", "1.6.0", "ml.p3.2xlarge"),
            {"pythonVersion": "py36"},
            "pytorch-training:1.6.0-gpu-py36",
        ),
        (
            ("pytorch", "1.11", "ml.trn1.32xlarge"),
            {},
            "pytorch-training-neuron:1.11-neuron-py38-sdk2.4.0-ubuntu20.04",
        ),
        (
            ("pytorch-neuronx", "2.1.2", "ml.trn1.32xlarge"),
            {},
            "pytorch-training-neuronx:2.1.2-neuronx-py310-sdk2.20.2-ubuntu20.04",
        ),
        (
            ("huggingface", "4.4.2", P4D),
            {"base": {"name": "pytorch", "version": "1.6.0"}},
            "huggingface-pytorch-training:1.6.0-transformers4.4.2-gpu-py36-cu110-ubuntu18.04",
        ),
        (
            ("huggingface", "4.26", P4D),
            {"base": {"name": "pytorch", "version": "1.13"}},
            "huggingface-pytorch-training:1.13-transformers4.26-gpu-py39-cu117-ubuntu20.04",
        ),
        (
            ("huggingface", "4.17.0", P4D),
            {"base": {"name": "tensorflow", "version": "2.6.3"}},
            "huggingface-tensorflow-training:2.6.3-transformers4.17.0-gpu-py38-cu112-ubuntu20.04",
        ),
    ],
)
def test_a_tag_says_version_processor_and_python(
    given: tuple[str, ...], more: dict[str, Any], end: str
) -> None:
    assert uri(*given, **more).endswith(f"/{end}")


@pytest.mark.parametrize(
    ("version", "instance_type", "end"),
    [
        ("2.0.1", P4D, "2.0.1-gpu-py310-cu118"),
        ("2.0.1", "ml.p5.48xlarge", "2.0.1-gpu-py310-cu121"),
        ("2.2.0", P4D, "2.2.0-gpu-py310-cu121"),
        ("2.4.1", P4D, "2.4.1-gpu-py311-cu121"),
        ("2.5.1", "ml.p5.48xlarge", "2.5.1-gpu-py311-cu124"),
    ],
)
def test_model_parallelism_v2_has_its_own_images(
    version: str, instance_type: str, end: str
) -> None:
    found = uri(
        "pytorch", version, instance_type, distribution={"kind": "torchrun", "library": "smp"}
    )
    assert found.endswith(f"/smdistributed-modelparallel:{end}")


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        (
            ("pytorch", "2.9.0"),
            {},
            "framework.version: no image of pytorch 2.9.0 is known here (by sagemaker 2.257.7",
        ),
        (("pytorch", "9.0"), {}, "framework.version: no image of pytorch 9.0"),
        (
            ("pytorch", "2.8.0", "ml.trn1.32xlarge"),
            {},
            "framework.version: no image of pytorch-neuron 2.8.0",
        ),
        (("pytorch", "2.8.0"), {"pythonVersion": "py310"}, "framework.pythonVersion: 'py310' is"),
        (("pytorch", "1.6.0"), {}, "framework.pythonVersion: is needed: images of pytorch 1.6.0"),
        (("pytorch", "2.8.0", P4D, "xx-east-1"), {}, "framework: AWS has no image"),
        (
            ("huggingface", "4.56.2", C5),
            {"base": {"name": "pytorch", "version": "2.8.0"}},
            "framework.name: AWS's images of huggingface for this are for GPUs",
        ),
        (
            ("huggingface", "4.56.2"),
            {"base": {"name": "pytorch", "version": "2.7.1"}},
            "framework.base: no image of huggingface 4.56.2 is built on pytorch2.7.1",
        ),
        (("pytorch", "1.13.1", "ml.p2.xlarge"), {}, "framework.version: AWS's images of pytorch"),
    ],
)
def test_what_is_not_known_is_refused_and_an_image_of_one_s_own_is_offered(
    given: tuple[str, ...], more: dict[str, Any], words: str
) -> None:
    said = refusal(*given, **more)
    assert said.startswith(words)
    assert said.endswith("image takes any URI")


def test_an_unknown_version_names_its_neighbours() -> None:
    versions = ["2.6.0", "2.7.1", "2.8.0", "2.10.0", "1.13.1"]
    assert nearest("2.9.0", versions) == ["2.6.0", "2.7.1", "2.8.0", "2.10.0"]
    assert nearest("3.0.0", versions) == ["2.6.0", "2.7.1", "2.8.0", "2.10.0"]
    assert nearest("1.0", versions) == ["1.13.1", "2.6.0", "2.7.1", "2.8.0"]


def test_the_data_say_where_they_come_from_and_when() -> None:
    assert known().source.startswith("sagemaker 2.")
    assert known().date.startswith("20")


def test_the_data_stay_small_enough_for_a_function() -> None:
    data = Path(images.__file__).with_name("images.json")
    assert data.stat().st_size < 40_000


def test_every_image_has_a_region_and_every_alias_an_image() -> None:
    for family in known().families.values():
        assert set(family.aliases.values()) <= set(family.images)
        for bases in family.images.values():
            for image in (one for found in bases.values() for one in found):
                assert known().registries[image.registries]
