"""Translates what SageMaker refuses of training jobs into our errors, and keeps AWS's reason.

Every text in a pattern was seen in AWS's pages or in what people wrote of their own accounts.
"""

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

#: "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 0 Instances, with
#: current utilization of 0 Instances and a request delta of 2 Instances."; for spot it is
#: 'ml.p4d.24xlarge for spot training job usage'.
_QUOTA = re.compile(r"service limit '(?P<name>[^']+)'")
#: "The requested resource training-job/ml.t3.medium is not available in this region".
_NOT_HERE = re.compile(r"requested resource .{0,100}not available in this region", re.IGNORECASE)
#: "Could not assume role <arn>. Please ensure that the role exists and allows principal ...".
_ROLE = re.compile(
    r"assume.{0,40}role|role.{0,250}(not exist|not found|assume)", re.IGNORECASE | re.DOTALL
)
#: "No S3 objects found under S3 URL "s3://..." given in input data source. Please ensure that ...".
_NO_DATA = re.compile(r"no S3 objects found", re.IGNORECASE)
#: "Cannot find the requested image: ...", "Cannot find repository: a in registry ID: 1 Please check
#: if ...", "Access denied for repository: a in registry ID: 1"; of a job: "ClientError: Cannot pull
#: algorithm container. Either the image does not exist or its permissions are incorrect.".
_NO_IMAGE = re.compile(
    r"cannot find (the requested image|repository)|access denied for repository"
    r"|cannot pull (the )?(algorithm|training) container",
    re.IGNORECASE,
)
#: "Requested resource not found.", which AWS calls a validation error.
_GONE = re.compile(r"resource not found|could not find", re.IGNORECASE)
#: "The request was rejected because the training job is in status Completed."
_ENDED = re.compile(r"job is in status (Completed|Failed|Stopped|Stopping)", re.IGNORECASE)
_ANOTHER_TYPE = "Choose another instance type, or another region's deployment."
_IMAGE_FIRST = (
    "Look at image (or framework): whether it is there, in a registry that the stack's parameter "
    "JobImages names, and whether its repository lets SageMaker pull it."
)
_DATA_FIRST = "Look at the channel's uri, and at what the job's role may read."


class Gone(errors.ClusterNotFound):
    """There is no such training job."""


class Ended(errors.WrongState):
    """The training job is over, or being stopped: there is nothing left to stop."""


class Denied(errors.BackendRejected):
    """IAM does not allow the call."""


class NameInUse(errors.ClusterExists):
    """There is a training job of that name; the caller finds out whose it is."""


_KNOWN = {
    "ResourceNotFound": Gone,
    "ResourceNotFoundException": Gone,
    "ResourceInUse": NameInUse,
    "ResourceInUseException": NameInUse,
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


def lacks_capacity(reason: str) -> bool:
    """Whether a job's FailureReason, or a refusal, says that AWS has no nodes now."""
    return classify(reason) == Kind.CAPACITY


def _judged_with_new_role(refusal: Refusal) -> errors.TrainyardError:
    error = _judged(refusal)
    # IAM's own refusal names an "assumed-role", ours, and comes again however often it is asked.
    rejected = isinstance(error, errors.BackendRejected) and not isinstance(error, Denied)
    late = rejected and _ROLE.search(error.detail)
    return errors.RetryableError(error.detail) if late else error


def _judged(refusal: Refusal) -> errors.TrainyardError:
    if refusal.code in ("AccessDenied", "AccessDeniedException"):
        return Denied(refusal.text)
    if refusal.code == "ValidationException" and _GONE.search(refusal.message):
        return Gone(refusal.message)
    if refusal.code == "ValidationException" and _ENDED.search(refusal.message):
        return Ended(refusal.message)
    if classify(refusal.message, refusal.code) == Kind.CAPACITY:
        return errors.NoCapacity(refusal.text)
    return errors.BackendRejected(refusal.text, next_step=_next_step(refusal))


def _next_step(refusal: Refusal) -> str | None:
    if _NOT_HERE.search(refusal.message):
        return _ANOTHER_TYPE
    if _NO_IMAGE.search(refusal.message):
        return _IMAGE_FIRST
    if refusal.code == "ResourceLimitExceeded":
        quota = _QUOTA.search(refusal.message)
        name = quota["name"] if quota else "<instance type> for training job usage"
        return (
            f"Ask for a higher quota in Service Quotas (SageMaker, '{name}'), or for fewer nodes."
        )
    return _DATA_FIRST if _NO_DATA.search(refusal.message) else None
