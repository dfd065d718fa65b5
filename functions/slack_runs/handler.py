"""Shows runs in a channel of Slack: at each event about one, and each minute those that go on.

The call of each minute sends the digest, too, once a day.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger

from trainyard.chat.mornings import look
from trainyard.wiring import morning, ports, telling

logger = Logger(service="slack-runs")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    done = look(ports(), telling(), morning(), event)
    for one in done:
        logger.info(f"{one.run_id}: {one.result}")
    return {"threads": len(done)}
