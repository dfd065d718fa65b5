"""Operations are put on moto by its names, and tags change as they are asked to."""

from __future__ import annotations

import pytest

from trainyard_local.sagemaker.operations import change, snake


@pytest.mark.parametrize(
    ("operation", "method"),
    [("CreateTrainingJob", "create_training_job"), ("ListTags", "list_tags")],
)
def test_an_operation_has_the_name_of_motos_method(operation: str, method: str) -> None:
    assert snake(operation) == method


def test_tags_are_added_replaced_removed_and_listed() -> None:
    tags = {"a": "1", "b": "2"}
    added = change("add_tags", tags, {"Tags": [{"Key": "b", "Value": "3"}]})
    assert added == {"Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "3"}]}
    assert change("delete_tags", tags, {"TagKeys": ["a", "none"]}) == {}
    assert change("list_tags", tags, {}) == {"Tags": [{"Key": "b", "Value": "3"}]}
