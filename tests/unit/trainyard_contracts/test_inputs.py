"""What a run may read, and where the program may find it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.spec_parts import cluster_spec

from trainyard_contracts.inputs import InputSpec, S3Prefix, misplaced, names_path
from trainyard_contracts.specs import RunSpec


def run(*inputs: dict[str, Any], job: dict[str, Any] | None = None, **cluster: Any) -> RunSpec:
    asked = {"nodes": 1, "module": "train"} | (job or {})
    spec = {"name": "a", "cluster": {"spec": cluster_spec("c", **cluster)}, "job": asked}
    return RunSpec.model_validate(spec | {"inputs": list(inputs)})


def copied(source: str = "s3://sagemaker-x/v1", path: str = "data", **more: str) -> dict[str, str]:
    return {"source": source, "path": path, **more}


ALLOWED = {"jobInputs": ["s3://sagemaker-x/v1/"]}


@pytest.mark.parametrize(
    ("source", "whole"),
    [("s3://b.c/a/b", "s3://b.c/a/b/"), ("s3://b.c/a/", "s3://b.c/a/"), ("s3://b.c", "s3://b.c/")],
)
def test_a_prefix_means_the_same_with_and_without_its_slash(source: str, whole: str) -> None:
    assert str(S3Prefix.of(source)) == whole


def test_a_prefix_holds_what_is_below_it_and_not_what_begins_alike() -> None:
    held = S3Prefix.of("s3://bucket/v1")
    assert held.holds(S3Prefix.of("s3://bucket/v1/"))
    assert held.holds(S3Prefix.of("s3://bucket/v1/a"))
    assert not held.holds(S3Prefix.of("s3://bucket/v10"))
    assert not held.holds(S3Prefix.of("s3://bucket/"))
    assert not held.holds(S3Prefix.of("s3://other/v1"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (copied("s3://sagemaker-x/a b"), "must be s3://BUCKET/PREFIX/"),
        (copied("https://x/y"), "must be s3://BUCKET/PREFIX/"),
        (copied("s3://sagemaker-x/a/../b"), "must not contain"),
        (copied("s3://sagemaker-x/a*"), "must be s3://BUCKET/PREFIX/"),
        (copied(path="../data"), "must be a relative path"),
        (copied(path="/fsx/../etc"), "must not contain"),
        (copied("corpus", mode="mount"), "data that were uploaded are copied"),
    ],
)
def test_what_cannot_be_an_input_is_refused_with_words(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        InputSpec.model_validate(given)
    text = str(refused.value)
    assert words in text or "String should match pattern" in text


@pytest.mark.parametrize(
    ("inputs", "more", "words"),
    [
        ([copied("s3://sagemaker-x/v2")], ALLOWED, "inputs.0.source: cluster 'c' may not read"),
        ([copied(), copied(path="data/more")], ALLOWED, "inputs.1.path: 'data/more' meets"),
        ([copied(path="/data/x")], ALLOWED, "inputs.0.path: '/data/x' is not below '/fsx'"),
        ([copied(path="/fsx/trainyard/x")], ALLOWED, "is where Trainyard keeps its runs"),
        ([copied(mode="mount")], ALLOWED, "inputs.0.mode: cluster 'c' has not mounted"),
        ([copied(path="x")], {**ALLOWED, "job": {"files": {"x/a": ""}}}, "meets job.files 'x/a'"),
    ],
)
def test_what_this_cluster_cannot_give_is_refused_and_names_the_field(
    inputs: list[dict[str, str]], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        run(*inputs, **more)
    assert words in str(refused.value)


def test_what_the_cluster_names_or_mounts_may_be_read() -> None:
    mount = {"bucket": "sagemaker-y", "prefix": "a", "mountPath": "/data"}
    made = run(copied(), copied("s3://sagemaker-y/a/b", "x", mode="mount"), s3Mounts=[mount],
               **ALLOWED)  # fmt: skip
    assert made.cluster.spec is not None
    assert made.cluster.spec.mounted(S3Prefix.of("s3://sagemaker-y/a/b")) == "/data/b"
    assert made.cluster.spec.may_copy(S3Prefix.of("s3://sagemaker-y/a/b"))


def test_a_relative_path_is_never_misplaced() -> None:
    assert misplaced("data", "/fsx") is None
    assert misplaced("/fsx/data", "/fsx") is None
    assert misplaced("/fsx", "/fsx") is not None


def test_a_text_names_a_path_where_one_stands_by_itself() -> None:
    for text in ("/fsx", "/fsx/a", "--data=/fsx/a", "a:/fsx/b", "x /fsx/b"):
        assert names_path(text, "/fsx")
    for text in ("/fsxy", "s3://b/fsx/a", "a/fsx/b", "fsx"):
        assert not names_path(text, "/fsx")
