"""ParallelCluster's API as a list of answers, by method and path, in the words of the real one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from trainyard.backends.parallelcluster.api import ParallelClusterApi, Reply

URL = "https://abcdefghij.execute-api.us-east-1.amazonaws.com/prod"
STACK = "8131d980-7fb5-11ee-9589-0a6424944f95"
ARN = f"arn:aws:cloudformation:us-east-1:111122223333:stack/demo/{STACK}"
HEAD = "i-0123456789abcdef0"
Json = dict[str, Any]


class Answers:
    """Answers each request with the next that was given for it; the last one stays."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Json, Json]] = []
        self._given: dict[tuple[str, str], list[Reply]] = {}

    def api(self) -> ParallelClusterApi:
        return ParallelClusterApi(URL, "us-east-1", lambda: Credentials("key", "secret"), self)

    def give(self, method: str, path: str, body: Any, status: int = 200) -> None:
        reply = Reply(status, json.dumps(body).encode())
        self._given.setdefault((method, path), []).append(reply)

    def __call__(self, request: AWSRequest) -> Reply:
        parts = urlsplit(request.url)
        path = parts.path.removeprefix("/prod/v3")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body = json.loads(request.data) if request.data else {}
        self.asked.append((request.method, path, query, body))
        given = self._given.get((request.method, path))
        assert given, f"nobody gave an answer for {request.method} {path}"
        return given.pop(0) if len(given) > 1 else given[0]

    def calls(self, method: str, path: str) -> list[Json]:
        """The bodies of these requests."""
        return [body for how, where, _, body in self.asked if (how, where) == (method, path)]


def gone(name: str = "demo") -> Json:
    return {
        "message": f"Cluster '{name}' does not exist or belongs to an incompatible "
        "ParallelCluster major version."
    }


def summary(status: str = "CREATE_IN_PROGRESS", **more: Any) -> Json:
    return {
        "clusterName": "demo",
        "region": "us-east-1",
        "version": "3.16.1",
        "cloudformationStackArn": ARN,
        "cloudformationStackStatus": status,
        "clusterStatus": status,
        "scheduler": {"type": "slurm"},
        **more,
    }


def description(
    tags: Mapping[str, str], status: str = "CREATE_COMPLETE", fleet: str = "RUNNING", **more: Any
) -> Json:
    return {
        "clusterName": "demo",
        "region": "us-east-1",
        "version": "3.16.1",
        "creationTime": "2026-11-20T00:00:05.000Z",
        "cloudFormationStackStatus": status,
        "clusterStatus": status,
        "computeFleetStatus": fleet,
        "cloudformationStackArn": ARN,
        "headNode": {
            "instanceId": HEAD,
            "instanceType": "c5.xlarge",
            "launchTime": "2026-11-20T00:01:00.000Z",
            "privateIpAddress": "10.0.0.4",
            "state": "running",
        },
        "tags": [{"key": key, "value": value} for key, value in tags.items()],
        **more,
    }


def instance(name: str, kind: str = "ComputeNode", state: str = "running", **more: Any) -> Json:
    queue = {"queueName": "workers"} if kind == "ComputeNode" else {}
    return {
        "instanceId": name,
        "instanceType": "c5.xlarge",
        "launchTime": "2026-11-20T00:02:00.000Z",
        "nodeType": kind,
        "privateIpAddress": "10.0.1.5",
        "state": state,
        **queue,
        **more,
    }
