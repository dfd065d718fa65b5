"""DynamoDB's data calls go straight to moto's handler: past Flask, guesses at the URL, and models.

They are most of all calls. What the handler does is moto's; only the way there and back is shorter,
by two thirds of the time.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from typing import Any

from sam_on_moto.cloud import Cloud, Handler
from sam_on_moto.wire.messages import Request, Response

_TARGETS = {
    f"DynamoDB_20120810.{name}"
    for name in (
        "GetItem",
        "PutItem",
        "UpdateItem",
        "DeleteItem",
        "Query",
        "BatchGetItem",
        "TransactWriteItems",
    )
}
_CONTENT_TYPE = "application/x-amz-json-1.0"


def shortcuts(cloud: Cloud) -> dict[tuple[str, str], Handler]:
    """What answers each of these calls, by signing name and X-Amz-Target."""
    return dict.fromkeys((("dynamodb", target) for target in _TARGETS), handler(cloud))


class _Headers(dict[str, str]):
    """Names in lower case, asked for in any."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


def handler(cloud: Cloud) -> Handler:
    """Answers a request whose X-Amz-Target is in _TARGETS."""
    make = _handler_class()

    def answer(request: Request) -> Response:
        try:
            parameters = json.loads(request.body, object_hook=_with_bytes)
        except ValueError as error:
            return _refused("SerializationException", str(error))
        if not isinstance(parameters, dict):
            return _refused("SerializationException", "the body is no JSON object")
        status, headers, body = make(cloud, request, parameters).call_action()
        return Response(
            int(status),
            [(name, str(value)) for name, value in headers.items() if name != "status"],
            body.encode(),
        )

    return answer


def _refused(code: str, message: str) -> Response:
    return Response(
        400,
        [("Content-Type", _CONTENT_TYPE)],
        json.dumps({"__type": code, "message": message}).encode(),
    )


@functools.cache
def _handler_class() -> Any:
    from moto.core.responses import BaseResponse
    from moto.dynamodb.responses import DynamoHandler

    class Direct(DynamoHandler):  # type: ignore[misc]
        """The handler of one request, with what moto reads from a request filled in."""

        def __init__(self, cloud: Cloud, request: Request, parameters: dict[str, Any]) -> None:
            super().__init__()
            self.params = self.body = parameters
            self.headers = _Headers(request.headers)
            self.region, self.current_account = cloud.region, cloud.account_id
            self.path = request.raw_path
            self.querystring: dict[str, Any] = {}
            self.response_headers: dict[str, str] = {}

        def call_action(self) -> Any:
            return BaseResponse.call_action(
                self
            )  # DynamoHandler's own adds a checksum, which every client then has to compute too

        def serialized(self, action_result: Any) -> Any:
            if isinstance(action_result.result, Exception):
                return super().serialized(action_result)
            return (
                200,
                {"Content-Type": _CONTENT_TYPE},
                json.dumps(action_result.result, default=_as_base64),
            )

    return Direct


def _with_bytes(pairs: Mapping[str, Any]) -> Any:
    """Binary attribute values are bytes to moto."""
    if len(pairs) == 1 and isinstance(pairs.get("B"), str):
        return {"B": base64.b64decode(pairs["B"])}
    if len(pairs) == 1 and isinstance(pairs.get("BS"), list):
        return {"BS": [base64.b64decode(value) for value in pairs["BS"]]}
    return pairs


def _as_base64(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no attribute value")
