"""Hyperparameters of a job are those that SageMaker takes, on every backend."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.base import read_stored
from trainyard_contracts.job_spec import JobSpec

JOB: dict[str, Any] = {"nodes": 1, "script": "a.py", "files": {"a.py": ""}}


def job(**hyperparameters: Any) -> JobSpec:
    return JobSpec.model_validate({**JOB, "hyperparameters": hyperparameters})


def refusal(given: Any) -> tuple[tuple[str | int, ...], str]:
    with pytest.raises(ValidationError) as refused:
        JobSpec.model_validate({**JOB, "hyperparameters": given})
    [error] = refused.value.errors()
    return error["loc"], error["msg"]


def test_any_json_is_a_value_and_keeps_its_type() -> None:
    given = {"lr": 0.1, "epochs": 3, "name": "a b", "flag": True, "none": None, "l": [1], "d": {}}
    assert job(**given).hyperparameters == given
    assert JobSpec.model_validate(JOB).hyperparameters is None


def test_a_hundred_are_taken_and_the_101st_is_refused() -> None:
    assert job(**{f"h{number}": 1 for number in range(100)})
    where, words = refusal({f"h{number}": 1 for number in range(101)})
    assert where == ("hyperparameters",)
    assert "at most 100" in words


def test_the_2501st_character_of_a_value_is_refused_as_it_is_sent() -> None:
    assert job(x="a" * 2498)
    where, words = refusal({"x": "a" * 2499})
    assert where == ("hyperparameters", "x")
    assert "2501 characters as JSON, and AWS takes 2500" in words
    assert refusal({"x": "é" * 417})[0] == ("hyperparameters", "x"), "six characters each"


@pytest.mark.parametrize("name", ["a b", "-a", "a=b", "", "a\n", "é", ".a", "n" * 257])
def test_a_name_that_is_no_option_or_too_long_is_refused(name: str) -> None:
    where, _ = refusal({name: 1})
    assert where[:2] == ("hyperparameters", name)


@pytest.mark.parametrize("name", ["sagemaker_program", "_tuning_objective_metric"])
def test_a_name_that_no_program_would_see_is_refused(name: str) -> None:
    _, words = refusal({name: 1})
    assert "AWS's containers take for themselves" in words


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], "a\0b", {"a": {"b\0": 1}}, "\ud800"]
)
def test_what_is_no_json_or_no_argument_is_refused(value: Any) -> None:
    assert refusal({"x": value})[0][:2] == ("hyperparameters", "x")


def test_what_was_accepted_once_is_read() -> None:
    stored = {**JOB, "hyperparameters": {"sagemaker_x": "a" * 3000}}
    given = JobSpec.model_validate(JOB).model_dump(mode="json", by_alias=True) | stored
    assert read_stored(JobSpec, json.dumps(given)).hyperparameters


def test_an_arrays_members_differ_in_texts_among_them() -> None:
    cluster = {"name": "there"}
    job = {**JOB, "hyperparameters": {"lr": "{lr}", "n": 3}}
    run = {"name": "a", "cluster": cluster, "job": job}
    array = ArraySpec.model_validate({"run": run, "matrix": {"lr": ["0.1", "0.2"]}})
    made = [array.member(n, values).job.hyperparameters for n, values in enumerate(array.values())]
    assert made == [{"lr": "0.1", "n": 3}, {"lr": "0.2", "n": 3}]
