"""The calls of MLflow's REST API that the trainers use, served over HTTP and kept in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

API = "/api/2.0/mlflow/"


class MlflowServer:
    """`broken`: the status that all calls are answered with; 0: none."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {"Default": "0"}
        self.runs: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.authorization: str | None = None
        self.broken, self.location = 0, ""

    def answer(self, what: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.calls.append(what)
        if self.broken:
            return self.broken, {"error_code": "BROKEN"}
        found: tuple[int, dict[str, Any]] = getattr(self, what.replace("/", "_").replace("-", "_"))(
            body
        )
        return found

    def experiments_get_by_name(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        found = self.experiments.get(body["experiment_name"])
        if found is None:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
        return 200, {"experiment": {"experiment_id": found}}

    def experiments_create(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        made = str(len(self.experiments))
        self.experiments[body["name"]] = made
        return 200, {"experiment_id": made}

    def runs_search(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name, _, value = body["filter"].partition(" = ")
        key = name.removeprefix("tags.`").removesuffix("`")
        found = [
            {"info": {"run_id": run_id}}
            for run_id, run in self.runs.items()
            if run["experiment_id"] in body["experiment_ids"]
            and {"key": key, "value": value.strip("'")} in run["tags"]
        ]
        return 200, {"runs": found} if found else {}

    def runs_create(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        run_id = f"{len(self.runs):032x}"
        self.runs[run_id] = {**body, "status": "RUNNING", "metrics": []}
        return 200, {"run": {"info": {"run_id": run_id}}}

    def runs_update(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.runs[body["run_id"]].update(body)
        return 200, {}

    def runs_log_batch(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        assert len(body["metrics"]) <= 1000
        self.runs[body["run_id"]]["metrics"] += body["metrics"]
        return 200, {}


@contextmanager
def serving(server: MlflowServer) -> Iterator[str]:
    """Its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._give(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            self._give({name: values[0] for name, values in query.items()})

        def _give(self, body: dict[str, Any]) -> None:
            server.authorization = self.headers["Authorization"]
            path = urlsplit(self.path).path
            assert API in path
            status, found = server.answer(path.partition(API)[2], body)
            text = json.dumps(found).encode()
            self.send_response(status)
            if server.location:
                self.send_header("Location", server.location)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()
