"""API Gateway's Lambda payload format 2.0: the event a function gets, and what its result means.

https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qsl, unquote

from sam_on_moto.functions.runtime_api import Invocation
from sam_on_moto.iam.access import Principal
from sam_on_moto.wire.messages import Request, Response, json_response


@dataclass(frozen=True)
class Route:
    """One path and method of an API."""

    key: str
    method: str
    path: str
    pattern: re.Pattern[str]
    function_arn: str
    iam: bool

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """API Gateway prefers full matches to greedy ones and named methods to ANY."""
        return ("+}" in self.path, self.method == "ANY", -len(self.path))


@dataclass(frozen=True)
class Call:
    """A request that found its route.

    `path` is what follows the API and its stage, still percent-encoded.
    """

    request: Request
    api_id: str
    stage: str
    route: Route
    path: str
    parameters: Mapping[str, str]


def event(call: Call, principal: Principal | None, *, account_id: str, port: int) -> dict[str, Any]:
    """The event. Empty parts are left out, as API Gateway does."""
    request = call.request
    headers = {
        **request.headers,
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-port": str(port),
        "x-forwarded-proto": "http",
    }
    cookies = headers.pop("cookie", "")
    body, encoded = _text(request.body)
    whole = {
        "version": "2.0",
        "routeKey": call.route.key,
        "rawPath": _raw_path(call),
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": _context(call, principal, account_id, f"127.0.0.1:{port}"),
        "isBase64Encoded": encoded,
    }
    optional = {
        "cookies": cookies.split("; ") if cookies else None,
        "queryStringParameters": _query(request.query),
        "pathParameters": dict(call.parameters),
        "body": body,
    }
    return {**whole, **{name: value for name, value in optional.items() if value}}


def _raw_path(call: Call) -> str:
    decoded = unquote(call.path)
    return decoded if call.stage == "$default" else f"/{call.stage}{decoded}"


def _context(
    call: Call, principal: Principal | None, account_id: str, domain: str
) -> dict[str, Any]:
    now = datetime.now(timezone.utc)
    http = {
        "method": call.request.method,
        "path": _raw_path(call),
        "protocol": "HTTP/1.1",
        "sourceIp": "127.0.0.1",
        "userAgent": call.request.headers.get("user-agent", ""),
    }
    return {
        "accountId": account_id,
        "apiId": call.api_id,
        **({"authorizer": {"iam": _iam(principal, account_id)}} if principal else {}),
        "domainName": domain,
        "domainPrefix": call.api_id,
        "http": http,
        "requestId": str(uuid.uuid4()),
        "routeKey": call.route.key,
        "stage": call.stage,
        "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "timeEpoch": int(now.timestamp() * 1000),
    }


def _iam(principal: Principal, account_id: str) -> dict[str, Any]:
    return {
        "accessKey": principal.access_key_id,
        "accountId": account_id,
        "callerId": principal.user_id,
        "cognitoIdentity": None,
        "principalOrgId": None,
        "userArn": principal.arn,
        "userId": principal.user_id,
    }


def _query(query: str) -> dict[str, str]:
    """Values of a repeated name are joined with commas."""
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values.setdefault(name, []).append(value)
    return {name: ",".join(several) for name, several in values.items()}


def _text(body: bytes) -> tuple[str, bool]:
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True


def answer(outcome: Invocation) -> Response:
    """The HTTP answer for a function's result; a result without statusCode is a body of its own."""
    if outcome.failed:
        late = b"Sandbox.Timedout" in outcome.result
        return (
            json_response(503, {"message": "Service Unavailable"})
            if late
            else json_response(500, {"message": "Internal Server Error"})
        )
    result = json.loads(outcome.result)
    if not isinstance(result, dict) or "statusCode" not in result:
        return json_response(200, result)
    raw = result.get("body") or ""
    text = raw if isinstance(raw, str) else json.dumps(raw)
    body = base64.b64decode(text) if result.get("isBase64Encoded") else text.encode()
    return Response(int(result["statusCode"]), _headers(result), body)


def _headers(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    headers = [(name, str(value)) for name, value in (result.get("headers") or {}).items()]
    headers += [
        (name, str(v))
        for name, values in (result.get("multiValueHeaders") or {}).items()
        for v in values
    ]
    headers += [("Set-Cookie", cookie) for cookie in result.get("cookies") or []]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", "text/plain; charset=utf-8"))
    return headers
