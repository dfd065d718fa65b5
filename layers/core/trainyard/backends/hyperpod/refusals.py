"""Translates the refusals that only SageMaker has into our errors, and keeps AWS's reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import ParamValidationError

from trainyard.aws import refusals
from trainyard.aws.refusals import Refusal
from trainyard.domain import errors
from trainyard.domain.capacity_refusals import Refusal as Kind
from trainyard.domain.capacity_refusals import classify

#: "Could not assume role <arn>. Please ensure that the role exists and allows principal
#: 'sagemaker.amazonaws.com' ...".
_ROLE = re.compile(
    r"assume.{0,40}role|role.{0,250}(not exist|not found|assume)", re.IGNORECASE | re.DOTALL
)
_ASK_FOR_QUOTA = (
    "Ask for a higher quota in Service Quotas (SageMaker, '<instance type> for cluster usage'), "
    "or for fewer nodes."
)
#: AWS's pages disagree: the API's reference knows Continuous for EKS only, and calls an
#: orchestrator without settings invalid.
_CONTINUOUS = re.compile(r"NodeProvisioningMode|Orchestrator|SlurmConfig|continuous", re.IGNORECASE)
_ALL_AT_ONCE = (
    "This region may not have continuous provisioning for Slurm yet: "
    "try provisioning 'AllAtOnce' in the cluster's spec."
)


class Gone(errors.ClusterNotFound):
    """The backend knows no such cluster or node."""


class Denied(errors.BackendRejected):
    """IAM does not allow the call.

    Where a policy asks for a cluster's tag, AWS says the same of a cluster that is gone.
    """


class NameInUse(errors.ClusterExists):
    """The backend has a cluster of that name; the caller finds out whose it is."""


_KNOWN = {
    "ResourceNotFound": Gone,
    "ResourceNotFoundException": Gone,
    "ResourceInUse": NameInUse,
}


@contextmanager
def translated(doing: str, new_role: str = "") -> Iterator[None]:
    """Run a call; `doing` completes "AWS refused to ...".

    `new_role` is a role that AWS may not know everywhere yet.
    """
    judge = _judged_with_new_role if new_role else _judged
    with refusals.translated(doing, _KNOWN, judge):
        try:
            yield
        except ParamValidationError as invalid:
            message = f"the request to {doing} is not valid: {invalid}"
            raise errors.BackendRejected(message) from invalid


def _judged_with_new_role(refusal: Refusal) -> errors.TrainyardError:
    error = _judged(refusal)
    # IAM's own refusal names an "assumed-role", ours, and comes again however often it is asked.
    rejected = isinstance(error, errors.BackendRejected) and not isinstance(error, Denied)
    late = rejected and _ROLE.search(error.detail)
    return errors.RetryableError(error.detail) if late else error


def _judged(refusal: Refusal) -> errors.TrainyardError:
    if refusal.code == "ConflictException":
        return errors.ConflictError(
            f"AWS cannot {refusal.doing} while another operation runs: {refusal.message}"
        )
    if refusal.code in ("AccessDenied", "AccessDeniedException"):
        return Denied(refusal.text)
    if classify(refusal.message, refusal.code) == Kind.CAPACITY:
        return errors.NoCapacity(refusal.text)
    return errors.BackendRejected(refusal.text, next_step=_next_step(refusal))


def _next_step(refusal: Refusal) -> str | None:
    if refusal.code == "ResourceLimitExceeded":
        return _ASK_FOR_QUOTA
    invalid = refusal.code == "ValidationException"
    return _ALL_AT_ONCE if invalid and _CONTINUOUS.search(refusal.message) else None
