"""Patterns of a training job's strings take what botocore's model takes, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from trainyard_contracts import training_job_words as words

#: Our word, the model's shape, and strings that fit.
SHAPES: list[tuple[Any, str, list[str]]] = [
    (
        words.RoleArn,
        "RoleArn",
        ["arn:aws:iam::123456789012:role/a", "arn:aws-cn:iam::123456789012:role/p/a"],
    ),
    (
        words.TrainingPlanArn,
        "TrainingPlanArn",
        ["arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"],
    ),
    (words.S3Uri, "S3Uri", ["s3://abc", "s3://my-corpus/a b/ü?x"]),
    (words.KmsKey, "KmsKeyId", ["alias/a", "arn:aws:kms:us-west-2:111122223333:key/1-2"]),
    (words.ImageUri, "AlgorithmImage", ["mine", "1.dkr.ecr.us-east-1.amazonaws.com/a@sha256:1"]),
    (words.Subnet, "SubnetId", ["subnet-0123456789abcdef0"]),
    (words.SecurityGroup, "SecurityGroupId", ["sg-0123456789abcdef0"]),
    (words.FileSystemId, "FileSystemId", ["fs-01234567", "fs-0123456789abcdef01"]),
    (words.ChannelName, "ChannelName", ["a.b-c_D"]),
    (words.GroupName, "InstanceGroupName", ["gpu nodes"]),
    (words.MetricName, "MetricName", ["loss (train)"]),
    (words.MetricRegex, "MetricRegex", ["loss: ([0-9.]+)"]),
    (words.LocalDirectory, "DirectoryPath", ["/", "/opt/ml/checkpoints"]),
    (words.ContentType, "ContentType", ["text/csv"]),
]


MODEL = botocore.session.get_session().get_service_model("sagemaker")
TYPES: TypeAdapter[str] = TypeAdapter(words.TrainingInstanceType)
READERS: dict[str, TypeAdapter[Any]] = {shape: TypeAdapter(word) for word, shape, _ in SHAPES}


def fits(shape: str, text: str) -> bool:
    model = MODEL.shape_for(shape)
    low, high = model.metadata.get("min", 0), model.metadata.get("max", len(text))
    return low <= len(text) <= high and bool(re.fullmatch(model.metadata["pattern"], text))


def taken(reader: TypeAdapter[Any], text: str) -> bool:
    try:
        reader.validate_python(text)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("shape", "good"), [(shape, good) for _, shape, good in SHAPES])
def test_a_string_that_the_model_takes_is_taken(shape: str, good: list[str]) -> None:
    for text in good:
        assert fits(shape, text)
        assert taken(READERS[shape], text)


@pytest.mark.parametrize(("shape", "good"), [(shape, good) for _, shape, good in SHAPES])
def test_a_string_of_two_lines_or_too_long_is_refused(shape: str, good: list[str]) -> None:
    for text in good:
        assert not taken(READERS[shape], f"{text}\n")
        assert not taken(READERS[shape], text + "a" * 5000)


@given(text=st.text(max_size=80))
def test_whatever_a_word_takes_the_model_takes(text: str) -> None:
    for _, shape, good in SHAPES:
        for candidate in (text, good[0] + text):
            assert not taken(READERS[shape], candidate) or fits(shape, candidate)


@pytest.mark.parametrize("name", ["ml.p4d.24xlarge", "ml.m7i-flex.large", "ml.p6e-gb200.36xlarge"])
def test_a_training_instance_type_is_taken(name: str) -> None:
    assert taken(TYPES, name)


def test_every_training_instance_type_of_the_model_is_taken() -> None:
    types = MODEL.shape_for("TrainingInstanceType").enum
    assert [name for name in types if not taken(TYPES, name)] == []


@pytest.mark.parametrize("name", ["p4d.24xlarge", "ml.p4d", "ML.P4D.24XLARGE", "ml.p4d.24xlarge "])
def test_another_spelling_of_a_type_is_refused(name: str) -> None:
    assert not taken(TYPES, name)
