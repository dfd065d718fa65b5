"""Does one step of a state machine: the event names the step, a use case does it."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger

from trainyard.app.machines.steps import run_step
from trainyard.domain.errors import TrainyardError
from trainyard.wiring import ports

logger = Logger(service="steps")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer what the step says; the log keeps one line with its reason."""
    ids = {key: event.get(key) for key in ("step", "runId", "clusterName", "generation")}
    try:
        answer = run_step(ports(), event)
    except (
        TrainyardError
    ) as error:  # what else is raised is a defect, which the runtime logs with its traceback
        logger.warning(
            "step failed", extra={**ids, "error": type(error).__name__, "reason": str(error)[:1000]}
        )
        raise
    logger.info(str(answer.get("reason") or answer), extra={**ids, "next": answer.get("next")})
    return answer
