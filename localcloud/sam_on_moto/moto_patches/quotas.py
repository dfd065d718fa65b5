"""AWS's limits on sizes, refused with AWS's own errors.

What passes here must not turn out to be too large only on AWS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sam_on_moto.moto_patches.pinned import wrap

KB = 1024
#: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevent-size.html
MOST_EVENTS_BYTES = 256 * KB
_TIME_BYTES = 14
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
#: The error's own words allow 100 bytes more.
MOST_PAYLOAD_BYTES = 6 * KB * KB
MOST_ANSWER_BYTES = MOST_PAYLOAD_BYTES + 100
MOST_ASYNCHRONOUS_BYTES = 256 * KB
#: https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_STATE_BYTES = 256 * KB


def install() -> None:
    """Hook moto's backends; once per process, after other parts put theirs in place."""
    from moto.events.models import EventsBackend
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend

    wrap(EventsBackend, "put_events", _put_events)
    wrap(StepFunctionsParserBackend, "start_execution", _start_execution)
    wrap(StepFunctionsParserBackend, "send_task_success", _send_task_success)


def entry_bytes(entry: Mapping[str, Any]) -> int:
    """An entry of PutEvents as EventBridge counts it."""
    texts = [
        entry.get("Source"),
        entry.get("DetailType"),
        entry.get("Detail"),
        *(entry.get("Resources") or []),
    ]
    return (_TIME_BYTES if "Time" in entry else 0) + sum(
        len(str(text).encode()) for text in texts if text
    )


def _put_events(original: Any) -> Any:
    from moto.events.exceptions import ValidationException

    def put_events(self: Any, events: Sequence[Mapping[str, Any]]) -> Any:
        if sum(map(entry_bytes, events)) > MOST_EVENTS_BYTES:
            raise ValidationException("Total size of the entries in the request is over the limit.")
        return original(self, events)

    return put_events


def _start_execution(original: Any) -> Any:
    def start(
        self: Any,
        state_machine_arn: str,
        name: str | None = None,
        execution_input: str | None = None,
        trace_header: str | None = None,
    ) -> Any:
        _check_length("input", execution_input or "")
        return original(self, state_machine_arn, name, execution_input, trace_header)

    return start


def _send_task_success(original: Any) -> Any:
    def succeed(self: Any, task_token: str, outcome: str) -> Any:
        _check_length("output", outcome)
        return original(self, task_token, outcome)

    return succeed


def _check_length(name: str, text: str) -> None:
    from moto.core.exceptions import AWSError

    if len(text.encode()) > MOST_STATE_BYTES:
        message = (
            f"Value at '{name}' failed to satisfy constraint: "
            f"Member must have length less than or equal to {MOST_STATE_BYTES}"
        )
        raise AWSError(f"1 validation error detected: {message}", "ValidationException")
