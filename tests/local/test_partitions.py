"""Queries of the local cloud's DynamoDB answer as stock moto, as fast in a large table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto.dynamodb.models.table import Table
from tests.support.store_table import create_table, mocked_dynamodb

from sam_on_moto.speed import partitions

QUERIES: dict[str, dict[str, Any]] = {
    "a partition": {
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}},
    },
    "a prefix, newest first": {
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :sk)",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":sk": {"S": "a"}},
        "ScanIndexForward": False,
    },
    "a range, limited": {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":pk": {"S": "p1"},
            ":first": {"S": "a3"},
            ":last": {"S": "b2"},
        },
        "Limit": 3,
    },
    "a range, limited, newest first": {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":pk": {"S": "p1"},
            ":first": {"S": "a3"},
            ":last": {"S": "b2"},
        },
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
    "a partition that is empty": {
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "none"}},
    },
}


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mocked_dynamodb() as client:
        create_table(client, "t")
        for partition in ("p1", "p2"):
            for number in range(9, 0, -1):
                for letter in "ab":
                    index = (
                        {
                            "gsi1pk": {"S": "odd" if number % 2 else "even"},
                            "gsi1sk": {"S": str(number)},
                        }
                        if letter == "a"
                        else {}
                    )
                    client.put_item(
                        TableName="t",
                        Item={"pk": {"S": partition}, "sk": {"S": f"{letter}{number}"}, **index},
                    )
        yield client


@pytest.fixture
def hooked() -> Iterator[None]:
    query, every = Table.query, Table.all_items
    partitions.install()
    yield
    Table.query, Table.all_items = query, every


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_finds_what_stock_moto_finds(
    dynamodb: Any, query: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    stock = dynamodb.query(TableName="t", **query)
    request.getfixturevalue("hooked")
    ours = dynamodb.query(TableName="t", **query)
    for answer in (stock, ours):
        del answer["ResponseMetadata"]
    assert ours == stock


def test_a_scan_still_sees_everything(dynamodb: Any, hooked: None) -> None:
    dynamodb.query(TableName="t", **QUERIES["a partition"])
    assert dynamodb.scan(TableName="t")["Count"] == 36


@pytest.fixture
def judged(hooked: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items moto itself has to judge, for each query."""
    counts: list[int] = []
    choose = partitions._of_partition

    def count(*given: Any) -> list[Any]:
        chosen = choose(*given)
        counts.append(len(chosen))
        return chosen

    monkeypatch.setattr(partitions, "_of_partition", count)
    return counts


def test_other_partitions_do_not_slow_a_query_down(dynamodb: Any, judged: list[int]) -> None:
    for number in range(30):
        dynamodb.put_item(TableName="t", Item={"pk": {"S": f"other-{number}"}, "sk": {"S": "x"}})
    dynamodb.query(TableName="t", **QUERIES["a partition"])
    assert judged == [18]


def test_the_newest_item_of_a_long_partition_is_found_without_a_look_at_the_others(
    dynamodb: Any, judged: list[int]
) -> None:
    for number in range(100):
        dynamodb.put_item(TableName="t", Item={"pk": {"S": "beats"}, "sk": {"S": f"{number:06d}"}})
    newest = {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":pk": {"S": "beats"},
            ":first": {"S": "0"},
            ":last": {"S": "9"},
        },
        "ScanIndexForward": False,
        "Limit": 1,
    }
    assert dynamodb.query(TableName="t", **newest)["Items"][0]["sk"] == {"S": "000099"}
    assert judged == [2], "it, and one more by which moto sees that another page follows"
