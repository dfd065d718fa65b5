"""Queries of the local cloud's DynamoDB find what stock moto finds, and do not get slower with the table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from moto.dynamodb.models.table import Table
from tests.support.store_table import create_table, mocked_dynamodb

from trainyard_local import partitions

QUERIES: dict[str, dict[str, Any]] = {
    "a partition": {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "p1"}}},
    "a prefix, newest first": {
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :sk)",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":sk": {"S": "a"}},
        "ScanIndexForward": False,
    },
    "a range, limited": {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":first": {"S": "a3"}, ":last": {"S": "b2"}},
        "Limit": 3,
    },
    "a range, limited, newest first": {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":first": {"S": "a3"}, ":last": {"S": "b2"}},
        "ScanIndexForward": False,
        "Limit": 2,
    },
    "a partition, filtered and limited": {
        "KeyConditionExpression": "pk = :pk",
        "FilterExpression": "gsi1pk = :odd",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":odd": {"S": "odd"}},
        "Limit": 4,
    },
    "beyond a key, limited": {
        "KeyConditionExpression": "pk = :pk AND sk > :sk",
        "ExpressionAttributeValues": {":pk": {"S": "p2"}, ":sk": {"S": "a5"}},
        "Limit": 2,
    },
    "beyond a key": {
        "KeyConditionExpression": "pk = :pk AND sk > :sk",
        "ExpressionAttributeValues": {":pk": {"S": "p2"}, ":sk": {"S": "a5"}},
    },
    "the next page": {
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :sk)",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":sk": {"S": "a"}},
        "ExclusiveStartKey": {"pk": {"S": "p1"}, "sk": {"S": "a4"}},
        "Limit": 2,
    },
    "the next page, newest first": {
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :sk)",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":sk": {"S": "a"}},
        "ExclusiveStartKey": {"pk": {"S": "p1"}, "sk": {"S": "a4"}},
        "ScanIndexForward": False,
        "Limit": 2,
    },
    "the next page, from a key that is gone": {
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}},
        "ExclusiveStartKey": {"pk": {"S": "p1"}, "sk": {"S": "a45"}},
        "Limit": 20,
    },
    "filtered": {
        "KeyConditionExpression": "pk = :pk",
        "FilterExpression": "attribute_not_exists(gsi1pk) OR gsi1pk = :odd",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":odd": {"S": "odd"}},
    },
    "the index": {
        "IndexName": "gsi1",
        "KeyConditionExpression": "gsi1pk = :pk AND gsi1sk < :before",
        "ExpressionAttributeValues": {":pk": {"S": "odd"}, ":before": {"S": "8"}},
        "ProjectionExpression": "pk, sk, gsi1sk",
        "ScanIndexForward": False,
    },
    "a partition that is empty": {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "none"}}},
}


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mocked_dynamodb() as client:
        create_table(client, "t")
        for partition in ("p1", "p2"):
            for number in range(9, 0, -1):
                for letter in "ab":
                    index = {"gsi1pk": {"S": "odd" if number % 2 else "even"}, "gsi1sk": {"S": str(number)}} if letter == "a" else {}
                    client.put_item(TableName="t", Item={"pk": {"S": partition}, "sk": {"S": f"{letter}{number}"}, **index})
        yield client


@pytest.fixture
def hooked() -> Iterator[None]:
    query, every = Table.query, Table.all_items
    partitions.install()
    yield
    Table.query, Table.all_items = query, every


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_finds_what_stock_moto_finds(dynamodb: Any, query: dict[str, Any], request: pytest.FixtureRequest) -> None:
    stock = dynamodb.query(TableName="t", **query)
    request.getfixturevalue("hooked")
    ours = dynamodb.query(TableName="t", **query)
    for answer in (stock, ours):
        del answer["ResponseMetadata"]
    assert ours == stock


def test_a_scan_still_sees_everything(dynamodb: Any, hooked: None) -> None:
    dynamodb.query(TableName="t", **QUERIES["a partition"])
    assert dynamodb.scan(TableName="t")["Count"] == 36


def test_a_query_of_a_full_table_is_as_fast_as_of_an_empty_one(dynamodb: Any, hooked: None) -> None:
    for number in range(300):
        dynamodb.put_item(TableName="t", Item={"pk": {"S": f"other-{number}"}, "sk": {"S": "x"}})
    started = time.process_time()
    for _ in range(10):
        dynamodb.query(TableName="t", **QUERIES["a prefix, newest first"])
    assert (time.process_time() - started) / 10 < 0.02


def test_the_newest_item_of_a_long_partition_is_found_without_a_look_at_the_others(dynamodb: Any, hooked: None) -> None:
    from moto.dynamodb.models import dynamodb_backends

    table = dynamodb_backends["123456789012"]["us-east-1"].tables["t"]
    for number in range(20_000):
        table.put_item({"pk": {"S": "beats"}, "sk": {"S": f"{number:06d}"}})
    newest = {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {":pk": {"S": "beats"}, ":first": {"S": "0"}, ":last": {"S": "9"}},
        "ScanIndexForward": False,
        "Limit": 1,
    }
    started = time.process_time()
    assert dynamodb.query(TableName="t", **newest)["Items"][0]["sk"] == {"S": "019999"}
    assert time.process_time() - started < 0.15
