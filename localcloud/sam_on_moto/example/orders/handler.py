"""The API of the shop: PUT stores an order and has it shipped, GET shows it."""

from __future__ import annotations

import json
import os
from typing import Any

import boto3


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """One request, as API Gateway's payload format 2.0 gives it."""
    order = event["pathParameters"]["id"]
    table = boto3.resource("dynamodb").Table(os.environ["ORDERS"])
    if event["requestContext"]["http"]["method"] == "GET":
        item = table.get_item(Key={"id": order}, ConsistentRead=True).get("Item")
        return _answer(200, item) if item else _answer(404, {"message": f"no order {order}"})
    item = {"id": order, "state": "placed", "what": json.loads(event["body"])["what"]}
    table.put_item(Item=item)
    boto3.client("stepfunctions").start_execution(
        stateMachineArn=os.environ["SHIPPING"], name=order, input=json.dumps({"id": order})
    )
    return _answer(201, item)


def _answer(status: int, body: Any) -> dict[str, Any]:
    return {"statusCode": status, "body": json.dumps(body)}
