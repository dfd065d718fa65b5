"""Signs the requests of any httpx client, so that generated clients reach the API, too."""

from __future__ import annotations

from collections.abc import Generator

import httpx

from .connection import Connection


class SigV4(httpx.Auth):
    """`httpx.Client(auth=SigV4())`: signed as the SDK signs, found as the SDK finds it."""

    requires_request_body = True

    def __init__(self, connection: Connection | None = None) -> None:
        self.connection = connection or Connection.find()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        kind = request.headers.get("content-type")
        given = {"content-type": kind} if kind else {}
        signed = self.connection.signed(request.method, str(request.url), request.content, given)
        request.headers.update(signed)
        yield request
