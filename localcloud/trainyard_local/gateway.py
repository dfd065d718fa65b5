"""The HTTP API in front of the functions: routes from SAM's OpenAPI body, IAM authorization, payload format 2.0."""

from __future__ import annotations

import base64
import json
import re
import secrets
import string
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qsl, unquote

from trainyard_local.access import Denied, Principal
from trainyard_local.cloud import Cloud
from trainyard_local.functions import NoSuchFunction, NotAllowed
from trainyard_local.runtime_api import Invocation
from trainyard_local.signatures import Rejected, SignedRequest, verify

PREFIX = "/_api/"
MOST_BODY_BYTES = 10 * 1024 * 1024
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "x-amazon-apigateway-any-method")


@dataclass(frozen=True)
class Request:
    """An HTTP request as it came over the wire; `raw_path` is still percent-encoded, header names are in lower case."""

    method: str
    raw_path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


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


@dataclass
class Api:
    """One HTTP API."""

    id: str
    routes: list[Route]
    stages: set[str] = field(default_factory=set)


class Gateway:
    """All HTTP APIs, at /_api/<id>[/<stage>]/...; the stage $default has no segment of its own, as on AWS."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.apis: dict[str, Api] = {}

    def add(self, body: Mapping[str, Any]) -> Api:
        """Raises ValueError for an authorizer or integration that is not supported."""
        api_id = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(10))
        api = Api(api_id, list(_routes(body)))
        self.apis[api_id] = api
        return api

    def url(self, api_id: str) -> str:
        """Base URL of an API's first stage, without a slash at the end."""
        stage = next(iter(self.apis[api_id].stages), "$default")
        return f"{self._cloud.endpoint}{PREFIX}{api_id}" + ("" if stage == "$default" else f"/{stage}")

    def handle(self, request: Request) -> Response:
        """Answer a request below /_api/."""
        api_id, _, rest = request.raw_path.removeprefix(PREFIX).partition("/")
        api = self.apis.get(api_id)
        if api is None:
            return _message(404, "Not Found")
        stage, path = _stage(api, rest)
        found = _match(api, request.method, path)
        if stage is None or found is None:
            return _message(404, "Not Found")
        route, parameters = found
        if len(request.body) > MOST_BODY_BYTES:
            return _message(413, "Request Too Long")
        try:
            principal = self._authorize(api, stage, route, request, path)
        except (Rejected, Denied) as refused:
            return _message(403, str(refused))
        event = self._event(api, stage, route, request, path, parameters, principal)
        return self._invoke(api, stage, route, event)

    def _authorize(self, api: Api, stage: str, route: Route, request: Request, path: str) -> Principal | None:
        if not route.iam:
            return None
        query = f"?{request.query}" if request.query else ""
        signed = SignedRequest(request.method, self._cloud.endpoint + request.raw_path + query, request.headers, request.body)
        now = datetime.now(timezone.utc)
        principal = verify(signed, self._cloud.access.principal, region=self._cloud.region, service="execute-api", now=now)
        arn = f"{self._execution_arn(api)}/{stage}/{request.method}{path}"
        self._cloud.access.require(principal, "execute-api:Invoke", arn)
        return principal

    def _execution_arn(self, api: Api) -> str:
        return f"arn:aws:execute-api:{self._cloud.region}:{self._cloud.account_id}:{api.id}"

    def _invoke(self, api: Api, stage: str, route: Route, event: Mapping[str, Any]) -> Response:
        source = f"{self._execution_arn(api)}/{stage}/{event['requestContext']['http']['method']}{route.path}"
        try:
            self._cloud.functions.check_permission(route.function_arn, "apigateway.amazonaws.com", source)
            outcome = self._cloud.functions.invoke(route.function_arn, json.dumps(event).encode())
        except (NotAllowed, NoSuchFunction):
            return _message(500, "Internal Server Error")
        return _answer(outcome)

    def _event(
        self, api: Api, stage: str, route: Route, request: Request, path: str, parameters: Mapping[str, str], principal: Principal | None
    ) -> dict[str, Any]:
        """Payload format 2.0 (API Gateway developer guide, 'Working with AWS Lambda proxy integrations for HTTP APIs')."""
        now = datetime.now(timezone.utc)
        decoded = unquote(path)
        raw_path = decoded if stage == "$default" else f"/{stage}{decoded}"
        headers = {
            **request.headers,
            "x-forwarded-for": "127.0.0.1",
            "x-forwarded-port": str(self._cloud.port),
            "x-forwarded-proto": "http",
        }
        cookies = headers.pop("cookie", None)
        domain = f"127.0.0.1:{self._cloud.port}"
        context: dict[str, Any] = {
            "accountId": self._cloud.account_id,
            "apiId": api.id,
            "domainName": domain,
            "domainPrefix": api.id,
            "http": {
                "method": request.method,
                "path": raw_path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": str(uuid.uuid4()),
            "routeKey": route.key,
            "stage": stage,
            "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now.timestamp() * 1000),
        }
        if principal:
            context["authorizer"] = {"iam": _iam(principal, self._cloud.account_id)}
        body, encoded = _text(request.body)
        event = {
            "version": "2.0",
            "routeKey": route.key,
            "rawPath": raw_path,
            "rawQueryString": request.query,
            "headers": headers,
            "requestContext": context,
            "isBase64Encoded": encoded,
        }
        optional = {
            "cookies": cookies.split("; ") if cookies else None,
            "queryStringParameters": _query(request.query),
            "pathParameters": dict(parameters),
        }
        event.update({name: value for name, value in optional.items() if value})
        return {**event, "body": body} if request.body else event

    def report(self) -> list[str]:
        return [self.url(api_id) for api_id in self.apis]


def _routes(body: Mapping[str, Any]) -> Iterable[Route]:
    for path, operations in body.get("paths", {}).items():
        for method in _METHODS:
            if method in operations:
                yield _route(path, method, operations[method])


def _route(path: str, method: str, operation: Mapping[str, Any]) -> Route:
    integration = operation["x-amazon-apigateway-integration"]
    found = re.search(r"functions/(arn:[^/]+)/invocations", str(integration.get("uri")))
    if integration.get("type") != "aws_proxy" or not found:
        raise ValueError(f"route {path}: the local gateway serves aws_proxy integrations of Lambda functions only")
    if integration.get("payloadFormatVersion", "2.0") != "2.0":
        raise ValueError(f"route {path}: the local gateway speaks payload format 2.0 only")
    authorizers = {name for entry in operation.get("security", []) for name in entry}
    if authorizers - {"AWS_IAM"}:
        raise ValueError(f"route {path}: the local gateway authorizes with AWS_IAM only, not {sorted(authorizers)}")
    name = "ANY" if method.startswith("x-") else method.upper()
    return Route(f"{name} {path}", name, path, _pattern(path), found[1], "AWS_IAM" in authorizers)


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(\{\w+\+?\})", path)
    texts = [re.escape(p) if not p.startswith("{") else f"(?P<{p.strip('{}+')}>{'.+' if p.endswith('+}') else '[^/]+'})" for p in parts]
    return re.compile("".join(texts))


def _stage(api: Api, rest: str) -> tuple[str | None, str]:
    first, _, remainder = rest.partition("/")
    if first in api.stages:
        return first, "/" + remainder
    return ("$default" if "$default" in api.stages else None), "/" + rest


def _match(api: Api, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    hits = [(r, m) for r in api.routes if r.method in (method, "ANY") and (m := r.pattern.fullmatch(path))]
    if not hits:
        return None
    route, match = min(hits, key=lambda hit: hit[0].rank)
    return route, {name: unquote(value) for name, value in match.groupdict().items()}


def _iam(principal: Principal, account: str) -> dict[str, Any]:
    return {
        "accessKey": principal.access_key_id,
        "accountId": account,
        "callerId": principal.user_id,
        "cognitoIdentity": None,
        "principalOrgId": None,
        "userArn": principal.arn,
        "userId": principal.user_id,
    }


def _query(query: str) -> dict[str, str]:
    """Values of a repeated name are joined with commas, as format 2.0 has it."""
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values.setdefault(name, []).append(value)
    return {name: ",".join(several) for name, several in values.items()}


def _text(body: bytes) -> tuple[str, bool]:
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True


def _message(status: int, message: str) -> Response:
    return Response(status, [("Content-Type", "application/json")], json.dumps({"message": message}).encode())


def _answer(outcome: Invocation) -> Response:
    if outcome.failed:
        return _message(
            503 if b"Sandbox.Timedout" in outcome.result else 500,
            "Service Unavailable" if b"Sandbox.Timedout" in outcome.result else "Internal Server Error",
        )
    result = json.loads(outcome.result)
    if not isinstance(result, dict) or "statusCode" not in result:
        return Response(200, [("Content-Type", "application/json")], json.dumps(result).encode())
    raw = result.get("body") or ""
    text = raw if isinstance(raw, str) else json.dumps(raw)
    body = base64.b64decode(text) if result.get("isBase64Encoded") else text.encode()
    headers = [(name, str(value)) for name, value in (result.get("headers") or {}).items()]
    headers += [(name, str(v)) for name, values in (result.get("multiValueHeaders") or {}).items() for v in values]
    headers += [("Set-Cookie", cookie) for cookie in result.get("cookies") or []]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", "text/plain; charset=utf-8"))
    return Response(int(result["statusCode"]), headers, body)
