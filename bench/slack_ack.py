"""How long Slack waits for a cold function's acknowledgement: `python -m bench.slack_ack`.

A process of Lambda's own runtime client starts with the function's code and gets one signed
command. Secrets Manager and the bus are on loopback and answer at once. The time that Lambda
needs to fetch and unpack the code, and TLS to AWS, are not in the numbers. On a busy machine the
CPU time says more than the time that passed.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode

from bench import cold
from bench.figures import machine, median, percentile, rounded

from trainyard.chat.front.signature import signature

SECRET = "a signing secret"
FIELDS = {
    "team_id": "T1",
    "user_id": "U1",
    "command": "/trainyard",
    "text": "runs",
    "trigger_id": "1.2.3",
    "response_url": "https://hooks.slack.com/commands/1",
}


class Aws(BaseHTTPRequestHandler):
    """The two calls that a cold function makes."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        secret = self.headers["X-Amz-Target"].endswith("GetSecretValue")
        answer = {"SecretString": SECRET} if secret else {"FailedEntryCount": 0, "Entries": [{}]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def event(now: float) -> dict[str, Any]:
    """A command as API Gateway hands it over."""
    body, stamp = urlencode(FIELDS), str(int(now))
    headers = {
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": signature(SECRET, stamp, body.encode()),
    }
    return {"version": "2.0", "headers": headers, "body": body, "isBase64Encoded": False}


def acknowledged(aws: str) -> dict[str, float]:
    """Milliseconds from the process's start to the end of init and to the answer; CPU time."""
    variables = {
        "AWS_ENDPOINT_URL": aws,
        "SLACK_SIGNING_SECRET": "arn:aws:secretsmanager:us-east-1:123456789012:secret:slack",
        "EVENT_BUS_NAME": "bus",
    }
    packages = [cold.ROOT / "layers/core"]
    found = cold.started(sys.executable, "slack", packages, variables, event(time.time()))
    return {"init": found.init, "acknowledgement": found.answer, "cpu": found.cpu}


def summary(found: list[dict[str, float]]) -> dict[str, float | None]:
    return {
        f"{name}Milliseconds{what}": rounded(value([one[name] for one in found]), 0)
        for name in ("init", "acknowledgement", "cpu")
        for what, value in (
            ("Median", median),
            ("P99", lambda values: percentile(values, 99)),
            ("Most", max),
        )
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.slack_ack", description=__doc__)
    parser.add_argument("--samples", type=int, default=20)
    samples = parser.parse_args(argv).samples
    aws = ThreadingHTTPServer(("127.0.0.1", 0), Aws)
    threading.Thread(target=aws.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{aws.server_port}"
    taken = [acknowledged(url) for _ in range(samples + 1)]  # the first one reads the files
    aws.shutdown()
    print(json.dumps({"samples": samples, **summary(taken[1:]), "machine": machine()}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
