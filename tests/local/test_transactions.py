"""Transactions of the local cloud's DynamoDB are all or nothing, as fast in a large table."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import Item
from moto.dynamodb.models.table import Table
from tests.support.store_table import create_table, mocked_dynamodb

from sam_on_moto.speed import transactions


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    original = DynamoDBBackend.transact_write_items
    transactions.install()
    try:
        with mocked_dynamodb() as client:
            create_table(client, "t")
            yield client
    finally:
        DynamoDBBackend.transact_write_items = original
        del Table.__deepcopy__


def key(name: str) -> dict[str, Any]:
    return {"pk": {"S": name}, "sk": {"S": "x"}}


def put(name: str, value: str, **rest: Any) -> dict[str, Any]:
    return {"Put": {"TableName": "t", "Item": {**key(name), "value": {"S": value}}, **rest}}


def update(name: str, value: str) -> dict[str, Any]:
    expression = {
        "UpdateExpression": "SET #v = :v",
        "ExpressionAttributeNames": {"#v": "value"},
        "ExpressionAttributeValues": {":v": {"S": value}},
    }
    return {"Update": {"TableName": "t", "Key": key(name), **expression}}


NEVER = {"ConditionExpression": "attribute_not_exists(pk)"}


def value(client: Any, name: str) -> str | None:
    item = client.get_item(TableName="t", Key=key(name)).get("Item")
    return item["value"]["S"] if item else None


def test_what_is_written_together_is_there_together(dynamodb: Any) -> None:
    dynamodb.transact_write_items(TransactItems=[put("a", "1"), put("b", "1")])
    assert (value(dynamodb, "a"), value(dynamodb, "b")) == ("1", "1")


@pytest.mark.parametrize(
    "first",
    [
        put("a", "2"),
        update("a", "2"),
        {"Delete": {"TableName": "t", "Key": key("a")}},
        put("new", "2"),
    ],
)
def test_a_transaction_that_fails_leaves_everything_as_it_was(
    dynamodb: Any, first: dict[str, Any]
) -> None:
    dynamodb.transact_write_items(TransactItems=[put("a", "1"), put("b", "1")])
    with pytest.raises(ClientError) as refused:
        dynamodb.transact_write_items(TransactItems=[first, put("b", "2", **NEVER)])
    assert [reason["Code"] for reason in refused.value.response["CancellationReasons"]] == [
        "None",
        "ConditionalCheckFailed",
    ]
    assert (value(dynamodb, "a"), value(dynamodb, "b"), value(dynamodb, "new")) == ("1", "1", None)
    dynamodb.transact_write_items(TransactItems=[put("a", "3"), put("c", "3", **NEVER)])
    assert (value(dynamodb, "a"), value(dynamodb, "c")) == ("3", "3")


def test_a_transaction_copies_what_it_touches_and_nothing_else(
    dynamodb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dynamodb.transact_write_items(TransactItems=[put(f"row-{number}", "1") for number in range(50)])
    copied: list[Item] = []
    monkeypatch.setattr(
        Item,
        "__deepcopy__",
        lambda item, memo: copied.append(item) or copy.copy(item),
        raising=False,
    )
    dynamodb.transact_write_items(
        TransactItems=[put("row-1", "2"), update("row-2", "2"), put("new", "2")]
    )
    assert {item.hash_key.value for item in copied} == {"row-1", "row-2"}
    assert len(copied) < 50
