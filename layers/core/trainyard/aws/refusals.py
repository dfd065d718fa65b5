"""Translates botocore's errors into our own, once, at the edge.

Nothing above `aws/` and `backends/` sees a ClientError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from trainyard.domain import errors

NEXT_STEP = (
    "Look at the function's log for the call; "
    "an AccessDenied means that template.yaml lacks a permission."
)
_THROTTLES = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "SlowDown",
        "TooManyRequestsException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "LimitExceededException",
    }
)
_PASSING = frozenset(
    {
        "InternalServerError",
        "InternalFailure",
        "InternalError",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "TransactionInProgressException",
        "TransactionConflictException",
        "500",
        "502",
        "503",
        "504",
    }
)


@dataclass(frozen=True)
class Refusal:
    """What AWS answered instead; `doing` completes "AWS refused to ..."."""

    doing: str
    code: str
    message: str

    @property
    def text(self) -> str:
        return f"AWS refused to {self.doing} ({self.code}): {self.message}"


def code_of(refusal: ClientError) -> str:
    """AWS's error code, e.g. 'ConditionalCheckFailedException'."""
    return str(refusal.response.get("Error", {}).get("Code", "Unknown"))


def message_of(refusal: ClientError) -> str:
    """AWS's own words."""
    return str(refusal.response.get("Error", {}).get("Message", "")) or str(refusal)


def _unexpected(refusal: Refusal) -> errors.TrainyardError:
    return errors.TrainyardError(refusal.text, next_step=NEXT_STEP)


@contextmanager
def translated(
    doing: str,
    known: Mapping[str, type[errors.TrainyardError]] | None = None,
    otherwise: Callable[[Refusal], errors.TrainyardError] = _unexpected,
) -> Iterator[None]:
    """Run a call; a refusal becomes the error that `known` names for its code, or the general one.

    `otherwise` judges what is neither known nor passes by itself.
    """
    try:
        yield
    except ClientError as answer:
        refusal = Refusal(doing, code_of(answer), message_of(answer))
        raise _error(refusal, known or {}, otherwise) from answer
    except BotoCoreError as broken:
        raise errors.RetryableError(f"the call to {doing} did not go through: {broken}") from broken


def _error(
    refusal: Refusal,
    known: Mapping[str, type[errors.TrainyardError]],
    otherwise: Callable[[Refusal], errors.TrainyardError],
) -> errors.TrainyardError:
    code, doing, message = refusal.code, refusal.doing, refusal.message
    if code in known:
        return known[code](message)
    if code in _THROTTLES:
        return errors.Throttled(f"AWS throttled the call to {doing}: {message}")
    if code in _PASSING:
        return errors.RetryableError(f"AWS could not {doing} now ({code}): {message}")
    return otherwise(refusal)
