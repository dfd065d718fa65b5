"""The table of template.yaml in moto, in this process, for tests of the stores."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from unittest.mock import patch

import boto3
from moto import mock_aws

from trainyard.aws.table import Table

TABLE_NAME = "trainyard-test"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
}


@contextlib.contextmanager
def dynamodb_table() -> Iterator[Table]:
    """An empty table with the index of template.yaml."""
    unset = {name: "" for name in os.environ if name.startswith("AWS_ENDPOINT_URL")}
    with patch.dict(os.environ, ENVIRONMENT), mock_aws():
        for name in unset:
            del os.environ[name]
        dynamodb = boto3.client("dynamodb", region_name="us-east-1")
        keys = ("pk", "sk", "gsi1pk", "gsi1sk")
        dynamodb.create_table(
            TableName=TABLE_NAME,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "gsi1",
                    "KeySchema": [{"AttributeName": "gsi1pk", "KeyType": "HASH"}, {"AttributeName": "gsi1sk", "KeyType": "RANGE"}],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        )
        yield Table(dynamodb, TABLE_NAME)
