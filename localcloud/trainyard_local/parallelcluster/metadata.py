"""The instance metadata service of local nodes: what a spot instance reads of its end.

On AWS each instance asks 169.254.169.254. Here each has an address of its own below the endpoint.
"""

from __future__ import annotations

import json
import secrets
from datetime import datetime, timedelta, timezone

from sam_on_moto.wire.messages import Request, Response
from trainyard_local.parallelcluster.clusters import Clusters
from trainyard_local.parallelcluster.node import QueueNode

PREFIX = "/_metadata/"
_TOKEN = "/latest/api/token"  # noqa: S105 - a path
_ACTION = "/latest/meta-data/spot/instance-action"
_TTL, _GIVEN = "x-aws-ec2-metadata-token-ttl-seconds", "x-aws-ec2-metadata-token"
_MOST_SECONDS = 21600


class Metadata:
    """Version 2 only: each question needs a token."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._tokens: dict[str, datetime] = {}

    def handle(self, request: Request) -> Response:
        instance_id, _, rest = request.raw_path.removeprefix(PREFIX).partition("/")
        found = self._clusters.instance(instance_id)
        if found is None or not isinstance(found[1], QueueNode):
            return Response(404, [], b"")
        if request.method == "PUT" and f"/{rest}" == _TOKEN:
            return self._token(request)
        until = self._tokens.get(request.headers.get(_GIVEN, ""))
        if until is None or until < datetime.now(timezone.utc):
            return Response(401, [], b"")
        at = found[1].interrupted_at
        if request.method != "GET" or f"/{rest}" != _ACTION or not at:
            return Response(404, [], b"")
        body = json.dumps({"action": "terminate", "time": at}).encode()
        return Response(200, [("Content-Type", "application/json")], body)

    def _token(self, request: Request) -> Response:
        seconds = request.headers.get(_TTL, "")
        if not seconds.isdecimal() or not 0 < int(seconds) <= _MOST_SECONDS:
            return Response(400, [], b"")
        now = datetime.now(timezone.utc)
        self._tokens = {token: until for token, until in self._tokens.items() if until > now}
        token = secrets.token_urlsafe(24)
        self._tokens[token] = now + timedelta(seconds=int(seconds))
        return Response(200, [], token.encode())
