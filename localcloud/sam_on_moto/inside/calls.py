"""Calls of moto's backends from inside: events, queues and objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sam_on_moto.inside.place import ACCOUNT_ID, REGION


def put_event(
    source: str, detail_type: str, detail: Mapping[str, Any], resources: list[str]
) -> None:
    """An AWS service's event on the default bus."""
    from moto.events.models import events_backends

    entry = {
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail, default=str),
        "Resources": resources,
    }
    events_backends[ACCOUNT_ID][REGION].put_events([entry])


def send_to_queue(arn: str, body: bytes, attributes: Mapping[str, str]) -> None:
    """A message for the queue with this ARN."""
    from moto.sqs.models import sqs_backends

    _, _, _, region, account, name = arn.split(":")
    encoded = {
        key: {"DataType": "String", "StringValue": value} for key, value in attributes.items()
    }
    sqs_backends[account][region].send_message(
        name, body.decode("utf-8", "replace"), message_attributes=encoded
    )


def read_prefix(bucket: str, prefix: str) -> dict[str, bytes]:
    """The objects below a prefix, by the rest of their keys.

    Raises FileNotFoundError when there is no such bucket: what needs its files says so.
    """
    from moto.s3.exceptions import MissingBucket
    from moto.s3.models import s3_backends

    try:
        keys = s3_backends[ACCOUNT_ID]["aws"].get_bucket(bucket).keys
    except MissingBucket:
        raise FileNotFoundError(
            f"s3://{bucket}/{prefix}: The specified bucket does not exist"
        ) from None
    return {
        name.removeprefix(prefix): key.value
        for name, key in keys.items()
        if name.startswith(prefix) and hasattr(key, "value")
    }
