"""Translates what SageMaker refuses into our own errors, with AWS's own words, once, at the edge of a backend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from trainyard.domain import errors

_THROTTLES = frozenset(
    {"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded"}
)
_PASSING = frozenset(
    {"InternalServerError", "InternalFailure", "ServiceUnavailable", "ServiceUnavailableException"}
)
_GONE = frozenset({"ResourceNotFound", "ResourceNotFoundException"})
_NO_CAPACITY = re.compile(
    r"sufficient.{0,20}capacity|capacity.{0,40}(not available|unavailable)", re.IGNORECASE
)

#: "Could not assume role <arn>. Please ensure that the role exists and allows principal 'sagemaker.amazonaws.com' ...".
_ROLE = re.compile(
    r"assume.{0,40}role|role.{0,250}(not exist|not found|assume)", re.IGNORECASE | re.DOTALL
)

_ASK_FOR_QUOTA = "Ask for a higher quota in Service Quotas (SageMaker, '<instance type> for cluster usage'), or for fewer nodes."

#: AWS's pages disagree: the API's reference knows Continuous for EKS only, and calls an orchestrator without settings invalid.
_CONTINUOUS = re.compile(r"NodeProvisioningMode|Orchestrator|SlurmConfig|continuous", re.IGNORECASE)
_ALL_AT_ONCE = "This region may not have continuous provisioning for Slurm yet: try provisioning 'AllAtOnce' in the cluster's spec."


class Gone(errors.ClusterNotFound):
    """The backend knows no such cluster or node."""


class Denied(errors.BackendRejected):
    """IAM does not allow the call. Where a policy asks for a cluster's tag, that is also what is said of one that is gone."""


class NameInUse(errors.ClusterExists):
    """The backend has a cluster of that name; whose, is for the caller to find out."""


@contextmanager
def translated(doing: str, new_role: str = "") -> Iterator[None]:
    """Run a call; `doing` completes "AWS refused to ...". `new_role`: a role that AWS may not know everywhere yet."""
    try:
        yield
    except ParamValidationError as invalid:
        raise errors.BackendRejected(f"the request to {doing} is not valid: {invalid}") from invalid
    except BotoCoreError as broken:
        raise errors.RetryableError(f"the call to {doing} did not go through: {broken}") from broken
    except ClientError as refusal:
        error = _error(doing, refusal)
        if new_role and isinstance(error, errors.BackendRejected) and _ROLE.search(error.detail):
            raise errors.RetryableError(error.detail) from refusal
        raise error from refusal


def _error(doing: str, refusal: ClientError) -> errors.TrainyardError:
    code = str(refusal.response.get("Error", {}).get("Code", "Unknown"))
    message = str(refusal.response.get("Error", {}).get("Message", "")) or str(refusal)
    text = f"AWS refused to {doing} ({code}): {message}"
    if code in _GONE:
        return Gone(message)
    if code == "ResourceInUse":
        return NameInUse(message)
    if code == "ConflictException":
        return errors.ConflictError(f"AWS cannot {doing} while another operation runs: {message}")
    if code in _THROTTLES:
        return errors.Throttled(text)
    if code in _PASSING:
        return errors.RetryableError(text)
    if code in ("AccessDenied", "AccessDeniedException"):
        return Denied(text)
    if _NO_CAPACITY.search(message):
        return errors.NoCapacity(text)
    return errors.BackendRejected(text, next_step=_next_step(code, message))


def _next_step(code: str, message: str) -> str | None:
    if code == "ResourceLimitExceeded":
        return _ASK_FOR_QUOTA
    return _ALL_AT_ONCE if code == "ValidationException" and _CONTINUOUS.search(message) else None
