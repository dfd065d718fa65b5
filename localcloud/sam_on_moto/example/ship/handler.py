"""Ships an order: its parcel goes into the queue, and the order says so."""

from __future__ import annotations

import os
from typing import Any

import boto3


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """One step of the state machine; its input names the order."""
    boto3.client("sqs").send_message(QueueUrl=os.environ["PARCELS"], MessageBody=event["id"])
    boto3.resource("dynamodb").Table(os.environ["ORDERS"]).update_item(
        Key={"id": event["id"]},
        UpdateExpression="SET #state = :state",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={":state": "shipped"},
    )
    return event
