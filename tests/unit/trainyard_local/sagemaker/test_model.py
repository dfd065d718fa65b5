"""botocore's model of SageMaker refuses what does not fit, in AWS's words."""

from __future__ import annotations

import pytest

from trainyard_local.sagemaker.errors import ValidationException
from trainyard_local.sagemaker.model import check

JOB = {
    "TrainingJobName": "a-job",
    "RoleArn": "arn:aws:iam::123456789012:role/Job",
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
}


def test_a_request_that_fits_passes() -> None:
    check("CreateTrainingJob", {**JOB, "HyperParameters": {"lr": "0.1"}})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"TrainingJobName": "no_underscores"}, "'trainingJobName' failed to satisfy constraint"),
        ({"OutputDataConfig": {}}, "Value null at 'outputDataConfig.s3OutputPath'"),
        (
            {"HyperParameters": {"lr": "x" * 2501}},
            "'hyperParameters.lr.value' failed to satisfy constraint: "
            "Member must have length less than or equal to 2500",
        ),
        (
            {"HyperParameters": {f"k{number}": "" for number in range(101)}},
            "'hyperParameters' failed to satisfy constraint",
        ),
        (
            {"ResourceConfig": {"InstanceType": "ml.abacus.large", "InstanceCount": 1}},
            "Member must satisfy enum value set",
        ),
    ],
)
def test_each_constraint_is_named_with_its_place(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationException) as refused:
        check("CreateTrainingJob", {**JOB, **given})
    assert words in str(refused.value)
    assert "validation error" in str(refused.value)
