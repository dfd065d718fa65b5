"""Translates botocore's errors into our own tree, once, at the edge: nothing above `aws/` sees a ClientError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from trainyard.domain import errors

_THROTTLES = frozenset({
    "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "TooManyRequestsException", "SlowDown",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "LimitExceededException",
})  # fmt: skip
_PASSING = frozenset({
    "InternalServerError", "InternalFailure", "InternalError", "ServiceUnavailable", "ServiceUnavailableException",
    "TransactionInProgressException", "TransactionConflictException", "500", "502", "503", "504",
})  # fmt: skip


def code_of(refusal: ClientError) -> str:
    """AWS's error code, e.g. 'ConditionalCheckFailedException'."""
    return str(refusal.response.get("Error", {}).get("Code", "Unknown"))


def message_of(refusal: ClientError) -> str:
    """AWS's own words."""
    return str(refusal.response.get("Error", {}).get("Message", "")) or str(refusal)


@contextmanager
def translated(
    doing: str, known: Mapping[str, type[errors.TrainyardError]] | None = None
) -> Iterator[None]:
    """Run a call; a refusal becomes the error that `known` names for its code, or the general one.

    `doing` completes "AWS refused to ...".
    """
    try:
        yield
    except ClientError as refusal:
        raise _error(doing, refusal, known or {}) from refusal
    except BotoCoreError as broken:
        raise errors.RetryableError(f"the call to {doing} did not go through: {broken}") from broken


def _error(
    doing: str, refusal: ClientError, known: Mapping[str, type[errors.TrainyardError]]
) -> errors.TrainyardError:
    code, message = code_of(refusal), message_of(refusal)
    if code in known:
        return known[code](message)
    if code in _THROTTLES:
        return errors.Throttled(f"AWS throttled the call to {doing}: {message}")
    if code in _PASSING:
        return errors.RetryableError(f"AWS could not {doing} now ({code}): {message}")
    return errors.TrainyardError(f"AWS refused to {doing} ({code}): {message}", next_step=NEXT_STEP)


NEXT_STEP = "Look at the function's log for the call; an AccessDenied means that template.yaml lacks a permission."
