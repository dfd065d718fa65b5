"""An API that answers as it is told, and what it says of a run and its cluster."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

RUN = "run-01jd0000000000000000000000"
T = "2026-11-20T20:00:00Z"
Answer = tuple[int, dict[str, Any]]


def a_run(status: str = "Running", **fields: Any) -> dict[str, Any]:
    attempt = {
        "number": 1,
        "generation": 1,
        "jobId": "7",
        "nodes": ["ip-127-0-0-2"],
        "startedAt": T,
        "resumedFrom": None,
        "outcome": None,
        "reason": "",
    }
    return {
        "id": RUN,
        "name": "mine [bold]",
        "status": status,
        "createdAt": T,
        "updatedAt": T,
        "clusterName": "mine-abc",
        "clusterDeleted": False,
        "attempts": [attempt],
        "attemptCount": 1,
        "incidents": [],
        "reason": "because",
        "problem": None,
        "export": None,
        "latest": {"runId": RUN, "attempt": 1, "step": 41, "loss": 0.25},
        **fields,
    }


def an_event(number: int, message: str, kind: str = "fact") -> dict[str, Any]:
    return {
        "id": f"E{number}",
        "at": T,
        "kind": kind,
        "type": "X",
        "message": message,
        "attempt": 1,
        "data": {},
    }


SAMPLE = {"cpuPercent": 55.0, "memoryUsedBytes": 2**30, "memoryTotalBytes": 2**32}
NODE = {
    "instanceId": "i-1",
    "group": "workers",
    "role": "worker",
    "instanceType": "ml.c5.xlarge",
    "status": "Running",
    "name": "ip-127-0-0-2",
    "agent": "linked",
    "scheduler": "idle",
    "sample": SAMPLE,
}
CLUSTER = {
    "name": "mine-abc",
    "status": "Ready",
    "createdAt": T,
    "spec": {
        "backend": "hyperpod",
        "instanceGroups": [{"name": "w", "count": 2, "instanceType": "ml.c5.xlarge"}],
    },
}


class _Handler(BaseHTTPRequestHandler):
    """Answers as the fake says that the class of its server names."""

    fake: FakeApi
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet; two would wait for each other for 40 ms

    def log_message(self, *_: object) -> None: ...

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.fake.requests.append(
            {
                "method": self.command,
                "path": url.path,
                "query": query,
                "raw": url.query,
                "headers": dict(self.headers),
                "body": body,
            }
        )
        status, document = self.fake.find(
            f"{self.command} {url.path.removeprefix('/stage')}", query
        )
        if url.path.startswith("/stage") and not self.fake.signed(
            self.command, self.path, self.headers, body
        ):
            status, document = 403, {"message": "Forbidden"}
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer


class FakeApi:
    """Answers by `METHOD /path`: an answer, a list of answers, or a function of the query.

    A list is used up one by one; its last answer stays.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[dict[str, Any]] = []

        class Handler(_Handler):
            fake = self

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def find(self, key: str, query: dict[str, str]) -> Answer:
        found = self.answers.get(
            key,
            (
                404,
                {
                    "title": "No such run",
                    "code": "run-not-found",
                    "detail": key,
                    "nextStep": "trainyard run ls",
                },
            ),
        )
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        return found(query) if callable(found) else found

    def signed(self, method: str, path: str, headers: Any, body: bytes) -> bool:
        """Recompute the signature from what arrived."""
        given = headers.get("authorization", "")
        names = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        request = AWSRequest(
            method,
            self.endpoint + path,
            data=body,
            headers={name: headers[name] for name in names if name in headers},
        )
        request.context["timestamp"] = headers.get("x-amz-date")
        signer = SigV4Auth(Credentials("AKIDLOCAL", "secret"), "execute-api", "us-east-1")
        signature = signer.signature(
            signer.string_to_sign(request, signer.canonical_request(request)), request
        )
        return bool(given) and given.endswith(f"Signature={signature}")

    def calls(self, key: str) -> list[dict[str, Any]]:
        return [
            request
            for request in self.requests
            if f"{request['method']} {request['path'].removeprefix('/stage')}" == key
        ]


def serve_a_whole_run(api: FakeApi, last: str = "Succeeded") -> None:
    events = [an_event(number, f"message {number}") for number in range(3)]
    api.answers |= {
        f"GET /v1/runs/{RUN}": [
            (200, a_run("Provisioning", attempts=[], latest=None)),
            (200, a_run()),
            (200, a_run(last, clusterDeleted=True)),
        ],
        f"GET /v1/runs/{RUN}/events": [(200, {"events": events[:2]}), (200, {"events": events})],
        f"GET /v1/runs/{RUN}/checkpoints": (
            200,
            {
                "checkpoints": [
                    {"step": 40, "attempt": 1, "status": "whole", "bytes": 99, "committedAt": T}
                ]
            },
        ),
        "GET /v1/clusters/mine-abc": (200, CLUSTER),
        "GET /v1/clusters/mine-abc/nodes": (200, {"nodes": [NODE]}),
    }


def exported(status: str = "Succeeded", **export: Any) -> dict[str, Any]:
    found = {
        "id": "export-2",
        "state": "verified",
        "final": False,
        "objects": 3,
        "bytes": 2048,
        "reason": "",
        "leftBehind": "",
        **export,
    }
    return a_run(status, export=found)
