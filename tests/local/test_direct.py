"""DynamoDB's short way answers as moto's long way; heads are read as the standard library does."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.support.store_table import create_table, mocked_dynamodb

from sam_on_moto.speed import direct
from sam_on_moto.wire.messages import Request
from sam_on_moto.wire.parsing import QuickHandler

KEY = {"pk": {"S": "a"}, "sk": {"S": "b"}}
ITEM = {
    **KEY,
    "n": {"N": "1.5"},
    "b": {"B": b"\x00\xff"},
    "l": {"L": [{"S": "x"}, {"BOOL": True}, {"NULL": True}]},
    "m": {"M": {"B": {"S": "a name like a type"}}},
    "bs": {"BS": [b"1", b"2"]},
}
ONLY_NEW = "attribute_not_exists(pk)"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("PutItem", {"TableName": "t", "Item": ITEM}),
    ("GetItem", {"TableName": "t", "Key": KEY, "ConsistentRead": True}),
    ("GetItem", {"TableName": "t", "Key": {"pk": {"S": "no"}, "sk": {"S": "b"}}}),
    ("Query", {"TableName": "t", "KeyConditionExpression": "pk = :pk",
               "ExpressionAttributeValues": {":pk": {"S": "a"}}, "Limit": 1}),
    ("BatchGetItem", {"RequestItems": {"t": {"Keys": [KEY]}}}),
    ("PutItem", {"TableName": "t", "Item": KEY, "ConditionExpression": ONLY_NEW}),
    ("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "t", "Item": KEY,
                                                       "ConditionExpression": ONLY_NEW}}]}),
    ("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "t",
                                                       "Item": {"pk": {"S": "c"},
                                                                "sk": {"S": "d"}}}}]}),
    (
        "UpdateItem",
        {"TableName": "t", "Key": KEY, "UpdateExpression": "SET n = :n",
         "ExpressionAttributeValues": {":n": {"N": "2"}}, "ReturnValues": "ALL_NEW"},
    ),
    ("DeleteItem", {"TableName": "t", "Key": KEY, "ConditionExpression": ONLY_NEW}),
    ("DeleteItem", {"TableName": "t", "Key": KEY, "ReturnValues": "ALL_OLD"}),
    ("GetItem", {"TableName": "none", "Key": KEY}),
    ("Query", {"TableName": "t", "KeyConditionExpression": "nonsense"}),
]  # fmt: skip


@pytest.fixture
def client() -> Iterator[Any]:
    with mocked_dynamodb() as client:
        create_table(client, "t")
        yield client


def as_sent(value: Any) -> Any:
    """A request or an answer as it goes over the wire."""
    return json.loads(json.dumps(value, default=lambda binary: base64.b64encode(binary).decode()))


def stock(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
    method = {
        "GetItem": "get_item",
        "PutItem": "put_item",
        "UpdateItem": "update_item",
        "DeleteItem": "delete_item",
        "Query": "query",
    }
    names = {
        **method,
        "BatchGetItem": "batch_get_item",
        "TransactWriteItems": "transact_write_items",
    }
    try:
        answer = getattr(client, names[operation])(**parameters)
    except ClientError as refusal:
        reasons = refusal.response.get("CancellationReasons")
        return (
            refusal.response["ResponseMetadata"]["HTTPStatusCode"],
            refusal.response["Error"]["Code"],
            as_sent(reasons),
        )
    del answer["ResponseMetadata"]
    answer.pop("ConsumedCapacity", None)
    return as_sent(answer)


def short(operation: str, parameters: dict[str, Any]) -> Any:
    cloud: Any = SimpleNamespace(region="us-east-1", account_id="123456789012")
    headers = {
        "x-amz-target": f"DynamoDB_20120810.{operation}",
        "content-type": "application/x-amz-json-1.0",
    }
    answer = direct.handler(cloud)(
        Request("POST", "/", "", headers, json.dumps(as_sent(parameters)).encode())
    )
    body = json.loads(answer.body)
    if answer.status != 200:
        return answer.status, body["__type"].rpartition("#")[2], body.get("CancellationReasons")
    for extra in ("ConsumedCapacity", "ConsumedCapacityUnits"):
        body.pop(extra, None)
    return body


def test_every_call_is_answered_as_on_the_long_way(client: Any) -> None:
    expected = [stock(client, *call) for call in CALLS]
    client.put_item(TableName="t", Item=ITEM)
    client.delete_item(TableName="t", Key=KEY)
    client.delete_item(TableName="t", Key={"pk": {"S": "c"}, "sk": {"S": "d"}})
    for call, wanted in zip(CALLS, expected, strict=True):
        assert short(*call) == wanted, call[0]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_what_is_no_json_object_is_refused(client: Any, body: bytes) -> None:
    cloud: Any = SimpleNamespace(region="us-east-1", account_id="123456789012")
    answer = direct.handler(cloud)(
        Request("POST", "/", "", {"x-amz-target": "DynamoDB_20120810.GetItem"}, body)
    )
    assert (answer.status, json.loads(answer.body)["__type"]) == (400, "SerializationException")


class Parsed(QuickHandler):
    """Reads one head, answers nothing."""

    def __init__(self, head: bytes) -> None:
        self.rfile, self.wfile = io.BytesIO(head), io.BytesIO()
        self.client_address = ("127.0.0.1", 1)
        self.raw_requestline = self.rfile.readline()
        self.ok = self.parse_request()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_head_is_read_with_its_fields_in_any_case() -> None:
    read = Parsed(
        b"POST /a%20b?c=d HTTP/1.1\r\nHost: x:1\r\nX-Amz-Target:  A.B \r\n"
        b"X-Twice: 1\r\nx-twice: 2\r\nno field\r\n\r\nbody"
    )
    assert read.ok
    assert (read.command, read.path, read.request_version, read.close_connection) == (
        "POST",
        "/a%20b?c=d",
        "HTTP/1.1",
        False,
    )
    assert read.headers.get("x-amz-TARGET") == "A.B"
    assert [value for name, value in read.headers.items() if name.lower() == "x-twice"] == [
        "1",
        "2",
    ]
    assert read.rfile.read() == b"body"


@pytest.mark.parametrize(
    ("head", "closes"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", True),
        (b"GET / HTTP/1.0\r\n\r\n", True),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False),
    ],
)
def test_a_connection_is_kept_as_the_client_asks(head: bytes, closes: bool) -> None:
    assert Parsed(head).close_connection is closes


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/2\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 201 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 70000 + b"\r\n\r\n", b"431"),
    ],
)
def test_a_head_that_is_wrong_is_refused(head: bytes, status: bytes) -> None:
    read = Parsed(head)
    assert not read.ok
    assert read.wfile.getvalue().split()[1] == status
