"""Shows runs in a channel of Slack: at each event about one, and each minute those that go on."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger

from trainyard.chat.threads import tell
from trainyard.wiring import ports, telling

logger = Logger(service="slack-runs")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    done = tell(ports(), telling(), event)
    for one in done:
        logger.info(f"{one.run_id}: {one.result}")
    return {"threads": len(done)}
