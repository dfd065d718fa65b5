"""One event of an agent or of AWS: recorded as a fact, and whoever waits for it is woken."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger

from trainyard.app.record_fact import record_fact
from trainyard.wiring import ports

logger = Logger(service="on-fact")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Never raises for a bad event, so that EventBridge does not repeat it; only an AWS failure does."""
    recorded = record_fact(ports(), event)
    log = logger.info if recorded.result == "recorded" else logger.warning
    if recorded.type != "ClusterHeartbeat":
        log(f"{recorded.result}: {recorded.reason}", extra={**asdict(recorded), "eventId": event.get("id")})
    return {"result": recorded.result, "reason": recorded.reason}
