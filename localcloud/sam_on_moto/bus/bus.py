"""Delivers EventBridge events to their targets, asynchronously, as AWS does.

A delivery that fails is tried again, and goes to the dead-letter queue in the end. moto cannot do
this: it raises for Lambda targets.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from sam_on_moto.bus import patterns
from sam_on_moto.functions.registry import Functions, NoSuchFunction, NotAllowed
from sam_on_moto.inside.calls import send_to_queue
from sam_on_moto.moto_patches.pinned import replace, wrap

log = logging.getLogger(__name__)

#: EventBridge retries for 24 hours with backoff. A local delivery that failed this often will not
#: succeed.
RETRY_SECONDS = (0.1, 0.5, 2.0)
LAMBDA, SQS = "lambda", "sqs"
#: Protocols of subscriptions of a topic.
HEARD = (SQS, "http", "https")


class Bus:
    """Delivery of every bus's rules."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._deliveries = ThreadPoolExecutor(8, thread_name_prefix="bus")
        self.delivered = 0
        self.failed = 0

    def install(self) -> None:
        """Hook moto's rules; once per process."""
        from moto.events.models import EventsBackend, Rule
        from moto.sns.responses import SNSResponse

        def send(rule: Any, original_event: dict[str, Any], transform_input: bool = True) -> None:
            self.dispatch(rule, original_event)

        replace(
            Rule, "send_to_targets", send, parameters=("self", "original_event", "transform_input")
        )
        wrap(EventsBackend, "put_rule", _checked_rule)
        wrap(EventsBackend, "put_targets", _checked_targets)
        wrap(SNSResponse, "subscribe", _checked_subscription)

    def dispatch(self, rule: Any, event: Mapping[str, Any]) -> None:
        pattern = rule.event_pattern.get_pattern()
        if rule.state != "ENABLED" or not pattern:
            return
        envelope = _envelope(event)
        if not patterns.matches(envelope, pattern):
            return
        for target in rule.targets:
            self._deliveries.submit(self._deliver, rule, target, envelope)

    def _deliver(self, rule: Any, target: Mapping[str, Any], envelope: Mapping[str, Any]) -> None:
        payload = target["Input"] if "Input" in target else json.dumps(envelope)
        most = target.get("RetryPolicy", {}).get("MaximumRetryAttempts", len(RETRY_SECONDS))
        error: Exception | None = None
        for attempt in range(1 + min(int(most), len(RETRY_SECONDS))):
            try:
                self._send(rule, target["Arn"], payload)
            except (NotAllowed, NoSuchFunction) as permanent:
                error = permanent
                break  # as on AWS: what can never succeed is not retried
            # A delivery must never be lost silently, whatever moto raises.
            except Exception as transient:  # noqa: BLE001
                error = transient
                time.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
            else:
                self.delivered += 1
                return
        self._give_up(rule, target, payload, error)

    def _send(self, rule: Any, arn: str, payload: str) -> None:
        if arn.split(":")[2] == SQS:
            send_to_queue(arn, payload.encode(), {})
            return
        self._functions.check_permission(arn, "events.amazonaws.com", rule.arn)
        self._functions.invoke_later(arn, payload.encode())

    def _give_up(
        self, rule: Any, target: Mapping[str, Any], payload: str, error: Exception | None
    ) -> None:
        self.failed += 1
        log.error("rule %s could not deliver to %s: %s", rule.name, target["Arn"], error)
        queue = target.get("DeadLetterConfig", {}).get("Arn")
        if queue:
            code = "NO_PERMISSIONS" if isinstance(error, NotAllowed) else "SDK_CLIENT_ERROR"
            attributes = {
                "ERROR_CODE": code,
                "ERROR_MESSAGE": str(error),
                "RULE_ARN": rule.arn,
                "TARGET_ARN": target["Arn"],
            }
            send_to_queue(queue, payload.encode(), attributes)

    def report(self) -> dict[str, int]:
        return {"delivered": self.delivered, "failed": self.failed}

    def close(self) -> None:
        self._deliveries.shutdown(wait=False, cancel_futures=True)


def _envelope(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event as a target gets it; moto's own `ingestion-time` is not part of it."""
    at = event["time"]
    if not isinstance(at, str):
        at = datetime.fromtimestamp(float(at), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**{key: value for key, value in event.items() if key != "ingestion-time"}, "time": at}


def _checked_rule(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a rule that a person puts: moto takes what would never be delivered."""

    def put(self: Any, name: str, **arguments: Any) -> Any:
        if arguments.get("scheduled_expression"):
            raise _refused("no rule fires by a schedule here; a schedule of EventBridge does")
        with _in_words():
            patterns.check(json.loads(arguments.get("event_pattern") or "{}"))
        return original(self, name, **arguments)

    return put


def _checked_targets(original: Callable[..., Any]) -> Callable[..., Any]:
    def put(self: Any, name: str, event_bus_arn: str | None, targets: list[Any]) -> Any:
        with _in_words():
            for target in targets:
                check_target(target)
        return original(self, name, event_bus_arn, targets)

    return put


def _checked_subscription(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a topic, by the API: moto takes what nobody would ever hear."""
    from moto.sns.exceptions import SNSInvalidParameter

    def subscribe(self: Any) -> Any:
        protocol = self._get_param("Protocol")
        if protocol not in HEARD:
            raise SNSInvalidParameter(
                f"Invalid parameter: the local cloud sends to {', '.join(HEARD)}, not by "
                f"{str(protocol)[:100]}; a queue hears what mail would"
            )
        return original(self)

    return subscribe


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise _refused(str(error)) from None


def _refused(words: str) -> Exception:
    from moto.events.exceptions import ValidationException

    refusal: Exception = ValidationException(words)
    return refusal


def check_target(target: Mapping[str, Any]) -> None:
    """Raises ValueError for a target or transformation that would not be delivered."""
    unknown = set(target) - {"Id", "Arn", "Input", "RetryPolicy", "DeadLetterConfig", "RoleArn"}
    if unknown:
        raise ValueError(f"the local cloud does not support {sorted(unknown)} of a rule's target")
    if target["Arn"].split(":")[2] not in (LAMBDA, SQS):
        raise ValueError(
            f"the local cloud delivers events to Lambda and SQS, not to {target['Arn']}"
        )
