"""The API in the test's own process, behind the SDK's client: only the network is missing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import httpx
from tests.support import http_events
from tests.support.memory import World

from trainyard.http.api import Api
from trainyard_sdk.client import Client
from trainyard_sdk.connection import Connection
from trainyard_sdk.handles import Run
from trainyard_sdk.sdk import Trainyard

URL = "http://127.0.0.1:1"
LOCAL = {
    "endpoint": URL,
    "apiUrl": URL,
    "region": "us-east-1",
    "accessKeyId": "AKIDLOCAL",
    "secretAccessKey": "secret",
}
#: What a request meets instead of the API: an error of the network, or an answer.
Trouble = Exception | httpx.Response


class InProcess(httpx.BaseTransport):
    """Each look at a run lets its story go on by one act, until none is left.

    One request at a time: the world of a story knows one process.
    """

    def __init__(self, world: World, acts: Iterator[Callable[[], object]] = iter(())) -> None:
        self._api = http_events.Client(Api(lambda: world.ports))
        self._acts = acts
        self.troubles: list[Trouble] = []
        self.seen: list[str] = []
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            return self._answered(request)

    def _answered(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.seen.append(f"{request.method} {path}")
        if self.troubles:
            trouble = self.troubles.pop(0)
            if isinstance(trouble, Exception):
                raise trouble
            return trouble
        if request.method == "GET" and path.count("/") == 3 and path.startswith("/v1/runs/"):
            next(self._acts, lambda: None)()
        answer = self._api.send(
            request.method,
            path,
            query=dict(parse_qsl(request.url.query.decode())),
            headers=dict(request.headers),
            body=request.content.decode() or None,
        )
        return httpx.Response(answer.status, headers=answer.headers, text=answer.text)


def connected(transport: httpx.BaseTransport) -> Client:
    return Client(Connection(URL, "us-east-1", dict(LOCAL)), transport=transport)


def trainyard(transport: httpx.BaseTransport, **pace: Any) -> Trainyard:
    return Trainyard(client=connected(transport), **{"poll_seconds": 0.001, **pace})


def away(times: int) -> list[Trouble]:
    """The network is away for so many requests."""
    return [httpx.ConnectError("Network is unreachable") for _ in range(times)]


def statuses(run: Run) -> list[str]:
    """What the timeline says of the run's status, in order."""
    return [entry.message for entry in run.events(follow=False) if entry.kind == "status"]
