"""Sends one delivery of a webhook, which the sweep found due and put on the bus."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger

from trainyard.app.webhooks.deliver import deliver
from trainyard.wiring import ports

logger = Logger(service="webhook")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A call that is lost or repeated is made good by the sweep: the delivery says what is due."""
    asked = event["detail"]
    done = deliver(ports(), str(asked["webhook"]), str(asked["delivery"]))
    logger.info(f"{done.result}: {done.reason}", extra=asdict(done))
    return {"result": done.result, "reason": done.reason}
