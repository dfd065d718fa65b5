"""Records one event of an agent or of AWS as a fact, and wakes the machines that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger

from trainyard.app.facts.log_batch import envelopes
from trainyard.app.facts.record_fact import record_fact
from trainyard.wiring import ports

logger = Logger(service="on-fact")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Never raises for a bad event, so that EventBridge does not repeat it; AWS failures raise.

    An event of CloudWatch Logs carries several lines; the answer is that of the last.
    """
    answer = {"result": "dropped", "reason": "nothing that can be read is in it"}
    for envelope in envelopes(event):
        answer = _record(envelope)
    return answer


def _record(event: Mapping[str, Any]) -> dict[str, Any]:
    recorded = record_fact(ports(), event)
    fields = {**asdict(recorded), "eventId": event.get("id")}
    if recorded.result == "dropped":
        logger.warning(f"dropped: {recorded.reason}", extra=fields)
        ports().metrics.put("EventsDropped", 1)
    elif recorded.type != "ClusterHeartbeat":
        logger.info(f"recorded: {recorded.reason}", extra=fields)
    return {"result": recorded.result, "reason": recorded.reason}
