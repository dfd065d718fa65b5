"""How long the API's first answer takes after a cold start: `python -m bench.cold_start`.

A process of Lambda's own runtime client starts on Python 3.13 with the built layers and gets one
`GET /v1/runs`; its table is empty and answers at once. The time that Lambda needs to fetch and
unpack the code is not in the numbers. On a busy machine the CPU time says more than the time that
passed. The layers hold packages for arm64. On another kind of machine, the few packages that are
not pure Python come from wheels for that machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench import cold
from bench.figures import machine, median, rounded
from scripts import sam

LAYERS = ("ContractsLayer", "CoreLayer")
WORK = sam.ROOT / "build/bench/cold_start"
NATIVE = ("awslambdaric", "pydantic-core")
SIGNER = "arn:aws:iam::123456789012:user/bench"
SETTINGS = (
    "STAGE", "TABLE_NAME", "DATA_BUCKET", "EVENT_BUS_NAME", "DEAD_LETTERS_URL", "RUN_MACHINE_ARN",
    "CLUSTER_MACHINE_ARN", "TEARDOWN_MACHINE_ARN", "NODE_BOUNDARY_ARN", "SECRET_PREFIX",
    "SCHEDULE_GROUP", "STEPS_FUNCTION_ARN", "SCHEDULES_ROLE_ARN",
)  # fmt: skip


class EmptyTable(BaseHTTPRequestHandler):
    """DynamoDB with nothing in it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"Items":[],"Count":0,"ScannedCount":0}'
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def built_layers() -> Path:
    """/opt as Lambda would unpack it, from what `sam build` made.

    It is built first where missing.
    """
    if not all((sam.BUILD / layer / "python").is_dir() for layer in LAYERS) and (
        status := sam.main()
    ):
        sys.exit(status)
    opt = WORK / "opt"
    shutil.rmtree(opt, ignore_errors=True)
    for layer in LAYERS:
        shutil.copytree(sam.BUILD / layer, opt, dirs_exist_ok=True)
    return opt


def without_compiled(opt: Path) -> Path:
    bare = WORK / "opt-without-compiled"
    shutil.rmtree(bare, ignore_errors=True)
    shutil.copytree(opt, bare, ignore=shutil.ignore_patterns("__pycache__"))
    return bare


def native_packages(python: str) -> Path:
    """Lambda's runtime client, and this machine's build of what the layers hold for arm64."""
    target = WORK / "native"
    if not (target / "awslambdaric").is_dir():
        lock = ["--constraint", str(sam.ROOT / "requirements/runtime.txt")]
        command = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--target",
            str(target),
            *lock,
            *NATIVE,
        ]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return target


def first_answer(python: str, opt: Path, native: Path, table: str) -> dict[str, float]:
    """Milliseconds from the process's start to the end of init, to the first answer; CPU time."""
    variables = {
        "PYTHONDONTWRITEBYTECODE": "1",  # /opt is read-only on Lambda
        "AWS_ENDPOINT_URL": table,
        "POWERTOOLS_SERVICE_NAME": "trainyard",
        **dict.fromkeys(SETTINGS, "arn:aws:iam::123456789012:role/cold-start"),
    }
    found = cold.started(python, "api", (native, opt / "python"), variables, _event())
    return {"init": found.init, "firstAnswer": found.answer, "cpu": found.cpu}


def _event() -> dict[str, Any]:
    request = {
        "method": "GET",
        "path": "/v1/runs",
        "protocol": "HTTP/1.1",
        "sourceIp": "127.0.0.1",
        "userAgent": "bench",
    }
    context = {
        "http": request,
        "requestId": "cold-start",
        "accountId": "123456789012",
        "stage": "$default",
        "timeEpoch": 0,
        "authorizer": {"iam": {"userArn": SIGNER, "userId": "AIDABENCH"}},
    }
    return {
        "version": "2.0", "routeKey": "ANY /v1/{proxy+}", "rawPath": "/v1/runs",
        "rawQueryString": "", "headers": {"host": "127.0.0.1"}, "requestContext": context,
        "isBase64Encoded": False,
    }  # fmt: skip


def measure(samples: int) -> dict[str, Any]:
    """Both kinds in turns, so that a busy machine slows both."""
    python = sam.find_python313()
    if python is None:
        sys.exit(sam.how_to_get_python313())
    opt, native = built_layers(), native_packages(python)
    kinds = {"compiled": opt, "notCompiled": without_compiled(opt)}
    taken: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    table = ThreadingHTTPServer(("127.0.0.1", 0), EmptyTable)
    threading.Thread(target=table.serve_forever, daemon=True).start()
    for _ in range(samples + 1):  # the first of each reads the files from the disk
        for kind, layers in kinds.items():
            taken[kind].append(
                first_answer(python, layers, native, f"http://127.0.0.1:{table.server_port}")
            )
    table.shutdown()
    return {kind: _medians(found[1:]) for kind, found in taken.items()}


def _medians(found: list[dict[str, float]]) -> dict[str, float | None]:
    return {
        f"{name}Milliseconds": rounded(median([one[name] for one in found]), 0)
        for name in ("init", "firstAnswer", "cpu")
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cold_start", description=__doc__)
    parser.add_argument("--samples", type=int, default=5)
    arguments = parser.parse_args(argv)
    print(
        json.dumps(
            {"samples": arguments.samples, **measure(arguments.samples), "machine": machine()},
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
