"""template.yaml's table in moto, in this process, for tests of stores and the cloud's hooks."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import boto3
from moto import mock_aws

from trainyard.aws.table import Table

#: What each index of template.yaml holds beside its keys.
INDEXES: dict[str, Any] = {
    "gsi1": {"ProjectionType": "KEYS_ONLY"},
    "listed": {
        "ProjectionType": "INCLUDE",
        "NonKeyAttributes": ["name", "status", "cluster", "labels", "createdBy"],
    },
}
_numbers = itertools.count()
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
}


@contextlib.contextmanager
def mocked_dynamodb() -> Iterator[Any]:
    """A client of moto's DynamoDB; starting it costs more than a test, so a module shares one."""
    with patch.dict(os.environ, ENVIRONMENT), mock_aws():
        for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
            del os.environ[name]
        yield boto3.client("dynamodb", region_name="us-east-1")


def new_table(dynamodb: Any) -> Table:
    """An empty table with the indexes of template.yaml, of a name of its own."""
    name = f"trainyard-test-{next(_numbers)}"
    create_table(dynamodb, name)
    return Table(dynamodb, name)


def create_table(dynamodb: Any, name: str) -> None:
    """A table with the keys and the indexes of template.yaml."""
    keys = ("pk", "sk", "gsi1pk", "gsi1sk")
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": name,
                "KeySchema": [
                    {"AttributeName": "gsi1pk", "KeyType": "HASH"},
                    {"AttributeName": "gsi1sk", "KeyType": "RANGE"},
                ],
                "Projection": projection,
            }
            for name, projection in INDEXES.items()
        ],
    )
