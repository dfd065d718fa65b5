"""The HTTP API in front of the functions: routes of SAM's OpenAPI body, with IAM authorization."""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

from sam_on_moto.cloud import Cloud
from sam_on_moto.functions.registry import Functions, NoSuchFunction, NotAllowed
from sam_on_moto.gateway import payload
from sam_on_moto.gateway.payload import Call, Route
from sam_on_moto.iam.access import Denied, Principal
from sam_on_moto.iam.signatures import Rejected, SignedRequest, verify
from sam_on_moto.moto_patches.quotas import MOST_PAYLOAD_BYTES
from sam_on_moto.wire.messages import Request, Response, json_response
from sam_on_moto.wire.request_bodies import MOST_API_BYTES

PREFIX = "/_api/"
_METHODS = (
    "get",
    "put",
    "post",
    "delete",
    "options",
    "head",
    "patch",
    "x-amazon-apigateway-any-method",
)


@dataclass
class Api:
    """One HTTP API."""

    id: str
    routes: list[Route]
    stages: set[str] = field(default_factory=set)


class Gateway:
    """All HTTP APIs, at /_api/<id>[/<stage>]/...

    The stage $default has no segment of its own, as on AWS.
    """

    def __init__(self, cloud: Cloud, functions: Functions) -> None:
        self._cloud = cloud
        self._functions = functions
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
        return f"{self._cloud.endpoint}{PREFIX}{api_id}" + (
            "" if stage == "$default" else f"/{stage}"
        )

    def handle(self, request: Request) -> Response:
        """Answer a request below /_api/."""
        api_id, _, rest = request.raw_path.removeprefix(PREFIX).partition("/")
        api = self.apis.get(api_id)
        if api is None:
            return json_response(404, {"message": "Not Found"})
        stage, path = _stage(api, rest)
        found = _match(api, request.method, path)
        if stage is None or found is None:
            return json_response(404, {"message": "Not Found"})
        route, parameters = found
        if len(request.body) > MOST_API_BYTES:
            return json_response(413, {"message": "Request Too Long"})
        call = Call(request, api.id, stage, route, path, parameters)
        try:
            principal = self._authorize(call)
        except (Rejected, Denied) as refused:
            return json_response(403, {"message": str(refused)})
        return self._invoke(
            call,
            payload.event(
                call, principal, account_id=self._cloud.account_id, port=self._cloud.port
            ),
        )

    def _authorize(self, call: Call) -> Principal | None:
        if not call.route.iam:
            return None
        request = call.request
        query = f"?{request.query}" if request.query else ""
        signed = SignedRequest(
            request.method,
            self._cloud.endpoint + request.raw_path + query,
            request.headers,
            request.body,
        )
        now = datetime.now(timezone.utc)
        principal = verify(
            signed,
            self._cloud.access.principal,
            region=self._cloud.region,
            service="execute-api",
            now=now,
        )
        self._cloud.access.require(
            principal, "execute-api:Invoke", self._execution_arn(call) + call.path
        )
        return principal

    def _execution_arn(self, call: Call) -> str:
        api = f"arn:aws:execute-api:{self._cloud.region}:{self._cloud.account_id}:{call.api_id}"
        return f"{api}/{call.stage}/{call.request.method}"

    def _invoke(self, call: Call, event: Mapping[str, Any]) -> Response:
        function = call.route.function_arn
        try:
            self._functions.check_permission(
                function, "apigateway.amazonaws.com", self._execution_arn(call) + call.route.path
            )
            content = json.dumps(event).encode()
            if len(content) > MOST_PAYLOAD_BYTES:
                return json_response(413, {"message": "Request Too Long"})
            outcome = self._functions.invoke(function, content)
        except (NotAllowed, NoSuchFunction):
            return json_response(500, {"message": "Internal Server Error"})
        return payload.answer(outcome)

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
        raise ValueError(
            f"route {path}: the local gateway serves aws_proxy integrations of Lambda functions "
            "only"
        )
    if integration.get("payloadFormatVersion", "2.0") != "2.0":
        raise ValueError(f"route {path}: the local gateway speaks payload format 2.0 only")
    authorizers = {name for entry in operation.get("security", []) for name in entry}
    if authorizers - {"AWS_IAM", "NONE"}:  # SAM's word for a route that asks nothing
        raise ValueError(
            f"route {path}: the local gateway authorizes with AWS_IAM or NONE, "
            f"not {sorted(authorizers)}"
        )
    name = "ANY" if method.startswith("x-") else method.upper()
    return Route(f"{name} {path}", name, path, _pattern(path), found[1], "AWS_IAM" in authorizers)


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(\{\w+\+?\})", path)
    texts = [
        re.escape(p)
        if not p.startswith("{")
        else f"(?P<{p.strip('{}+')}>{'.+' if p.endswith('+}') else '[^/]+'})"
        for p in parts
    ]
    return re.compile("".join(texts))


def _stage(api: Api, rest: str) -> tuple[str | None, str]:
    first, _, remainder = rest.partition("/")
    if first in api.stages:
        return first, "/" + remainder
    return ("$default" if "$default" in api.stages else None), "/" + rest


def _match(api: Api, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    hits = [
        (r, m)
        for r in api.routes
        if r.method in (method, "ANY") and (m := r.pattern.fullmatch(path))
    ]
    if not hits:
        return None
    route, match = min(hits, key=lambda hit: hit[0].rank)
    return route, {name: unquote(value) for name, value in match.groupdict().items()}
