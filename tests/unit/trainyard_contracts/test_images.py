"""What may stand in `job.image`, and how it is read."""

from __future__ import annotations

import pytest

from trainyard_contracts.images import DOCKER_HUB, Reference, image_name, is_file, reference

ECR = "763104351884.dkr.ecr.eu-west-1.amazonaws.com"
DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("image", "read"),
    [
        (f"{ECR}/pytorch-training:2.7", Reference(ECR, "pytorch-training", "2.7", "")),
        (f"{ECR}/team/train@{DIGEST}", Reference(ECR, "team/train", "", DIGEST)),
        (f"nvcr.io/nvidia/pytorch:25.06-py3@{DIGEST}",
         Reference("nvcr.io", "nvidia/pytorch", "25.06-py3", DIGEST)),
        ("localhost:5000/a__b/c-d", Reference("localhost:5000", "a__b/c-d", "", "")),
        ("python:3.12", Reference(DOCKER_HUB, "library/python", "3.12", "")),
        ("python", Reference(DOCKER_HUB, "library/python", "", "")),
        ("docker.io/pytorch/pytorch", Reference(DOCKER_HUB, "pytorch/pytorch", "", "")),
        ("pytorch/pytorch:2.7", Reference(DOCKER_HUB, "pytorch/pytorch", "2.7", "")),
    ],
)  # fmt: skip
def test_a_reference_is_read_as_docker_reads_it(image: str, read: Reference) -> None:
    assert image_name(image) == image
    assert reference(image) == read


def test_the_registry_is_asked_for_the_digest_else_the_tag_else_latest() -> None:
    assert reference(f"a/b:1@{DIGEST}").version == DIGEST
    assert reference("a/b:1").version == "1"
    assert reference("a/b").version == "latest"


def test_a_file_is_named_by_its_absolute_path() -> None:
    assert image_name("/fsx/images/train-1.2.sqsh") == "/fsx/images/train-1.2.sqsh"
    assert is_file("/fsx/a.sqsh")
    assert not is_file("a/b")


@pytest.mark.parametrize(
    "image",
    [
        "", " ", "Train:1", "a/Train", "a b", "a:b:c", "a@sha256:0", f"a@{DIGEST}:1", "a:", "a/",
        "/fsx/a", "/fsx/../a.sqsh", "/fsx/./a.sqsh", "/fsx//a.sqsh", "/fsx/a b.sqsh", "a.sqsh/",
        "/fsx/a,b.sqsh", "/fsx/$(x).sqsh", "docker://a/b", "ecr.io#a/b", "UPPER/a", "a/b:1\n",
        "a" * 1100, "-a", "a$(reboot)", "a;b",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_what_would_be_right(image: str) -> None:
    with pytest.raises(ValueError, match=r"must be an image such as .* or the absolute path"):
        image_name(image)
