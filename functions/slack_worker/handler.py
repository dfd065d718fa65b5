"""Answers one command or one click in Slack, which functions/slack verified and put on the bus."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger

from trainyard.chat.worker import answer
from trainyard.wiring import chat, ports

logger = Logger(service="slack-worker")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Raises if Slack did not take the answer, so that Lambda repeats the call."""
    answered = answer(ports(), chat(), event)
    logger.info(f"{answered.result}: {answered.reason}", extra=asdict(answered))
    return {"result": answered.result, "reason": answered.reason}
