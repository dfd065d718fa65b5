"""What AWS would refuse of a job's name, program, hyperparameters and variables is named."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest
from tests.support.training_jobs import PROGRAM, intent, spec

from trainyard.backends.training_job import limits
from trainyard.backends.training_job.intent import Program
from trainyard.domain.errors import InvalidRequest
from trainyard_contracts import hyperparameters

SOURCE = PROGRAM.source_uri
TORCHRUN = {"distribution": {"kind": "torchrun"}}


def fields(wanted: dict[str, Any], **of_spec: Any) -> list[str]:
    with pytest.raises(InvalidRequest) as refused:
        limits.check(intent(spec(**of_spec), **wanted))
    return [error.field for error in refused.value.errors]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"job_name": "a_b"}, "name"),
        ({"job_name": "a" * 64}, "name"),
        ({"role_arn": "SMRole"}, "role"),
        ({"output_uri": "/data"}, "output"),
        ({"tags": {f"k{number}": "v" for number in range(51)}}, "tags"),
        ({"program": Program("", SOURCE)}, "program.entryPoint"),
        ({"program": Program("/train.py", SOURCE)}, "program.entryPoint"),
        ({"program": Program("../train.py", SOURCE)}, "program.entryPoint"),
        ({"program": Program("train.py", "sourcedir.tar.gz")}, "program.source"),
        ({"hyperparameters": {"x": "a" * 2499}}, "hyperparameters.x"),
        ({"hyperparameters": {"a\nb": 1}}, "hyperparameters.a\nb"),
        ({"hyperparameters": {"sagemaker_program": "x.py"}}, "hyperparameters.sagemaker_program"),
        ({"hyperparameters": {f"h{number}": 1 for number in range(96)}}, "hyperparameters"),
        ({"environment": {"1A": "x"}}, "environment.1A"),
        ({"environment": {"A-B": "x"}}, "environment.A-B"),
        ({"environment": {"A": "x" * 513}}, "environment.A"),
        ({"environment": {f"V{number}": "" for number in range(101)}}, "environment"),
    ],
)
def test_what_aws_would_refuse_is_named(wanted: dict[str, Any], field: str) -> None:
    assert fields(wanted) == [field]


@pytest.mark.parametrize(
    "wanted",
    [
        {"job_name": "a" * 63},
        {"hyperparameters": {"x": "a" * 2498}},
        {"hyperparameters": {f"h{number}": 1 for number in range(95)}},
        {"environment": {f"V{number}": "x" * 512 for number in range(100)}},
        {"program": Program("run.sh", SOURCE)},
    ],
)
def test_what_is_just_within_the_limits_is_taken(wanted: dict[str, Any]) -> None:
    limits.check(intent(**wanted))


def test_torchrun_starts_python_only() -> None:
    assert fields({"program": Program("run.sh", SOURCE)}, **TORCHRUN) == ["program.entryPoint"]


def test_a_model_dir_of_one_s_own_is_not_overwritten_in_silence() -> None:
    tensorflow = {"name": "tensorflow", "version": "2.13", "pythonVersion": "py310"}
    given = {"hyperparameters": {"model_dir": "s3://mine/model"}}
    assert fields(given, framework=tensorflow) == ["hyperparameters.model_dir"]


def test_efa_s_variables_count() -> None:
    given = {"environment": {f"V{number}": "" for number in range(98)}}
    own = {"framework": None, "image": "mine:1", "instanceType": "ml.p5en.48xlarge"}
    assert fields(given, **own) == ["environment"]


def test_all_mistakes_are_told_at_once() -> None:
    assert fields({"job_name": "_", "environment": {"1": ""}}) == ["name", "environment.1"]


def test_the_numbers_are_those_of_the_service_model() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")

    def most(shape: str) -> int:
        return int(model.shape_for(shape).metadata["max"])

    assert most("HyperParameters") == hyperparameters.MOST_HYPERPARAMETERS
    assert most("HyperParameterKey") == hyperparameters.LONGEST_NAME
    assert most("HyperParameterValue") == hyperparameters.LONGEST_VALUE
    assert most("TrainingEnvironmentMap") == limits.MOST_VARIABLES
    assert most("TrainingEnvironmentKey") == limits.LONGEST_VARIABLE
    assert most("TrainingEnvironmentValue") == limits.LONGEST_VARIABLE
    assert most("TagList") == limits.MOST_TAGS
