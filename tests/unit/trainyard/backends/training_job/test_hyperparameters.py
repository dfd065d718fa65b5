"""Hyperparameters of any JSON type go to the container as JSON, and Trainyard's own win."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.training_jobs import intent, spec

from trainyard.backends.training_job.hyperparameters import encoded, hyperparameters, own

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (3, "3"),
        (0.1, "0.1"),
        ("resnet", '"resnet"'),
        ("3", '"3"'),
        (True, "true"),
        (None, "null"),
        ([1, "a"], '[1, "a"]'),
        ({"a": {"b": 1}}, '{"a": {"b": 1}}'),
        ("é", '"\\u00e9"'),
    ],
)
def test_a_value_is_sent_as_json(value: Any, sent: str) -> None:
    assert hyperparameters(intent(hyperparameters={"x": value}))["x"] == sent


@given(values=st.dictionaries(st.text(max_size=20), JSON, max_size=4))
def test_what_the_container_reads_is_what_was_given(values: dict[str, Any]) -> None:
    assert {name: json.loads(text) for name, text in encoded(values).items()} == values


def test_the_program_is_named_by_five_hyperparameters() -> None:
    assert hyperparameters(intent(hyperparameters={})) == {
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": '"s3://sm-bucket/job/source/sourcedir.tar.gz"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": '"demo-job"',
        "sagemaker_region": '"us-east-1"',
    }


def test_trainyard_s_own_come_before_a_stored_intent_s() -> None:
    wanted = intent(hyperparameters={"sagemaker_program": "other.py"})
    assert hyperparameters(wanted)["sagemaker_program"] == '"train.py"'


def test_a_plain_job_has_no_key_of_a_launcher() -> None:
    assert not any("enabled" in name for name in own(intent(spec())))
