"""API Gateway's events of the HTTP API (payload 2.0), and a client that sends them."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.support.spec_parts import ON_FSX

from trainyard.domain.errors import CODES
from trainyard.http.api import Api


class Signer(NamedTuple):
    """Who signed, as the gateway says it."""

    arn: str
    id: str


ME = Signer("arn:aws:iam::123456789012:user/me", "AIDAME")


def event(
    method: str,
    path: str,
    *,
    query: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    body: Any = None,
    signer: Signer | None = None,
    request_id: str = "request-1",
) -> dict[str, Any]:
    """An event; `body` may be a string as it is, bytes (sent as base64) or anything JSON."""
    sent = {
        "host": "api.example",
        "content-type": "application/json",
        "user-agent": "test",
        **(headers or {}),
    }
    found: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "ANY /v1/{proxy+}",
        "rawPath": path,
        "rawQueryString": urlencode(query or {}),
        "headers": {name.lower(): value for name, value in sent.items() if value is not None},
        "pathParameters": {"proxy": path.removeprefix("/v1/")},
        "requestContext": _context(method, path, signer or ME, request_id),
        "isBase64Encoded": isinstance(body, bytes),
    }
    if query:
        found["queryStringParameters"] = {name: str(value) for name, value in query.items()}
    if isinstance(body, bytes):
        found["body"] = base64.b64encode(body).decode()
    elif body is not None:
        found["body"] = body if isinstance(body, str) else json.dumps(body)
    return found


def _context(method: str, path: str, signer: Signer, request_id: str) -> dict[str, Any]:
    """What the gateway says of a request besides the request itself."""
    return {
        "accountId": "123456789012",
        "apiId": "abc123",
        "authorizer": {
            "iam": {
                "accessKey": "AKIA",
                "accountId": "123456789012",
                "callerId": signer.id,
                "cognitoIdentity": None,
                "principalOrgId": None,
                "userArn": signer.arn,
                "userId": signer.id,
            }
        },
        "domainName": "abc123.execute-api.us-east-1.amazonaws.com",
        "domainPrefix": "abc123",
        "http": {
            "method": method,
            "path": path,
            "protocol": "HTTP/1.1",
            "sourceIp": "127.0.0.1",
            "userAgent": "test",
        },
        "requestId": request_id,
        "routeKey": "ANY /v1/{proxy+}",
        "stage": "$default",
        "time": "12/Mar/2026:19:03:58 +0000",
        "timeEpoch": 1773342238000,
    }


@dataclass(frozen=True)
class Answer:
    """What the gateway would send back."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def fields(self) -> dict[str, str]:
        """The problem's messages by field."""
        return {item["field"]: item["message"] for item in self.json.get("errors", [])}


@dataclass
class Client:
    """Sends events to the API as the function's handler does."""

    api: Api
    signer: Signer = field(default_factory=lambda: ME)
    sent: Iterator[int] = field(default_factory=lambda: count(1))

    def of(self, signer: Signer) -> Client:
        """The same API, called by another person."""
        return replace(self, signer=signer)

    def send(self, method: str, path: str, **rest: Any) -> Answer:
        given = {"signer": self.signer, "request_id": f"request-{next(self.sent)}", **rest}
        raw = self.api.handle(event(method, path, **given), None)
        return Answer(raw["statusCode"], raw["headers"], raw["body"])

    def get(self, path: str, **rest: Any) -> Answer:
        return self.send("GET", path, **rest)

    def post(self, path: str, body: Any = None, **rest: Any) -> Answer:
        return self.send("POST", path, body=body, **rest)


def spec() -> dict[str, Any]:
    """A run of two nodes on a cluster of its own, as a client sends it."""
    return {
        "name": "demo",
        "cluster": {
            "spec": {
                "name": "demo",
                **copy.deepcopy(ON_FSX),
                "instanceGroups": [
                    {
                        "name": "controller",
                        "role": "controller",
                        "instanceType": "ml.c5.large",
                        "count": 1,
                    },
                    {
                        "name": "worker",
                        "role": "worker",
                        "instanceType": "ml.c5.xlarge",
                        "count": 2,
                        "spares": 1,
                    },
                ],
            }
        },
        "job": {"nodes": 2, "module": "trainyard_trainers.ddp"},
    }


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good spec with one place changed; `path` is dotted."""
    body = spec()
    *parents, last = path.split(".")
    place: Any = body
    for part in parents:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    place[last] = value
    return body


def is_a_problem(answer: Any, status: int, code: str) -> None:
    assert answer.status == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json
    assert problem["code"] == code in CODES
    assert problem["status"] == status
    assert problem["type"] == f"urn:trainyard:problem:{code}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["nextStep"]
    assert "Traceback" not in answer.text
    assert 'File "' not in answer.text
