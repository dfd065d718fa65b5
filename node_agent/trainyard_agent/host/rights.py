"""Asks AWS for what an adopted cluster's controller will ask for, and says what is denied.

Only an attempt shows that. It leaves one empty object in the stack's bucket.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_agent.host.signed_http import SignedHttp
from trainyard_contracts.event_bases import SOURCE

#: Objects of this name are those of the question; it has no byte, and no run reads it.
PROBE = "adoption/logs/asked"


def put_events(region: str, bus: str) -> None:
    """An event that is no JSON: a bus that we may write to refuses it, and it goes nowhere."""
    entry = {"Source": SOURCE, "DetailType": "none", "Detail": "none", "EventBusName": bus}
    body = json.dumps({"Entries": [entry]}).encode()
    headers = {
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": "AWSEvents.PutEvents",
    }
    SignedHttp("events", region).request(
        "POST", "/", headers=headers, body=body, payload_sha256=sha256(body).hexdigest()
    )


def put_logs(region: str, bucket: str, runs: str) -> None:
    S3(region).put_bytes(Location(bucket, f"{runs}/{PROBE}"), b"")


def denied(asks: Mapping[str, Callable[[], Any]]) -> list[str]:
    """The statements of the policy that are missing, each with AWS's word."""
    found = []
    for statement, ask in asks.items():
        try:
            ask()
        except Refused as refused:
            if refused.status in (401, 403) or "AccessDenied" in str(refused):
                found.append(f"{statement} ({refused})")
        except Unreachable as error:
            found.append(f"{statement} (no answer: {error})")
    return found


def main(region: str, bus: str, bucket: str, runs: str) -> int:
    missing = denied({
        "ReportFacts": lambda: put_events(region, bus),
        "WriteLogsAndExports": lambda: put_logs(region, bucket, runs),
    })  # fmt: skip
    if missing:
        print(
            f"the role of this node's group lacks the statement {' and '.join(missing)}; "
            "trainyard cluster adopt NAME --dryrun prints the policy"
        )
    return 1 if missing else 0
