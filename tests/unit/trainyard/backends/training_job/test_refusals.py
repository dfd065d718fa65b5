"""AWS's refusals of training jobs become our errors, with AWS's reason and what to do next."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

from trainyard.backends.training_job.refusals import (
    Denied,
    Ended,
    Gone,
    NameInUse,
    lacks_capacity,
    translated,
)
from trainyard.domain import errors

QUOTA = (
    "The account-level service limit 'ml.p4d.24xlarge for {}training job usage' is 0 Instances, "
    "with current utilization of 0 Instances and a request delta of 2 Instances. Please use AWS "
    "Service Quotas to request an increase for this quota."
)
CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
    "different ML instance type."
)
DENIED = "User: arn:aws:sts::1:assumed-role/a is not authorized to perform: sagemaker:Create..."
ROLE = (
    "Could not assume role arn:aws:iam::1:role/x. Please ensure that the role exists and allows "
    "principal 'sagemaker.amazonaws.com' to assume the role."
)


def refused(
    code: str, message: str, operation: str = "CreateTrainingJob", new_role: str = ""
) -> errors.TrainyardError:
    answer = ClientError({"Error": {"Code": code, "Message": message}}, operation)
    with pytest.raises(errors.TrainyardError) as raised, translated("create the job", new_role):
        raise answer
    return raised.value


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("ResourceInUse", "Training job already exists", NameInUse),
        ("ResourceNotFound", "Requested resource not found.", Gone),
        ("ValidationException", "Requested resource not found.", Gone),
        (
            "ValidationException",
            "The request was rejected because the training job is in status Completed.",
            Ended,
        ),
        (
            "ValidationException",
            "The request was rejected because the training job is in status Stopping.",
            Ended,
        ),
        ("AccessDeniedException", DENIED, Denied),
        ("ThrottlingException", "Rate exceeded", errors.Throttled),
        ("InternalFailure", "", errors.RetryableError),
        ("ServiceUnavailable", "", errors.RetryableError),
        ("ValidationException", CAPACITY, errors.NoCapacity),
        ("ResourceLimitExceeded", QUOTA.format(""), errors.BackendRejected),
        ("ValidationException", "1 validation error detected", errors.BackendRejected),
        ("SomethingNew", "as yet unknown", errors.BackendRejected),
    ],
)
def test_a_refusal_is_the_error_that_it_means(
    code: str, message: str, kind: type[errors.TrainyardError]
) -> None:
    assert type(refused(code, message)) is kind


@pytest.mark.parametrize("spot", ["", "spot "])
def test_a_quota_is_named_as_service_quotas_has_it(spot: str) -> None:
    error = refused("ResourceLimitExceeded", QUOTA.format(spot))
    assert f"'ml.p4d.24xlarge for {spot}training job usage'" in error.next_step
    assert "is 0 Instances" in error.detail


def test_a_limit_in_words_that_are_new_still_says_what_to_ask_for() -> None:
    error = refused("ResourceLimitExceeded", "too many jobs")
    assert "Service Quotas" in error.next_step


def test_a_type_that_the_region_lacks_needs_another_type_and_no_quota() -> None:
    message = "The requested resource training-job/ml.t3.medium is not available in this region"
    assert refused("ResourceLimitExceeded", message).next_step.startswith("Choose another")


def test_data_that_are_not_there_are_looked_for_in_the_channel() -> None:
    message = 'No S3 objects found under S3 URL "s3://a/b" given in input data source.'
    assert "channel's uri" in refused("ValidationException", message).next_step


NO_IMAGE = [
    "Cannot find the requested image: 1.dkr.ecr.us-east-1.amazonaws.com/mine:7",
    "Cannot find repository: mine in registry ID: 1 Please check if your ECR repository exists and "
    "role arn:aws:iam::1:role/x has proper pull permissions for SageMaker: ecr:BatchGetImage",
    "Access denied for repository: mine in registry ID: 1",
]


@pytest.mark.parametrize("message", NO_IMAGE)
def test_a_wrong_image_is_looked_for_in_its_registry_and_is_no_late_role(message: str) -> None:
    error = refused("ValidationException", message, new_role="arn")
    assert type(error) is errors.BackendRejected
    assert "JobImages" in error.next_step
    assert message in error.detail


def test_a_role_that_was_just_made_is_tried_again() -> None:
    assert refused("ValidationException", ROLE, new_role="arn").retryable
    assert not refused("ValidationException", ROLE).retryable


def test_a_call_that_iam_forbids_is_not_tried_again_though_its_words_name_an_assumed_role() -> None:
    assert not refused("AccessDeniedException", DENIED, new_role="arn").retryable


def test_aws_s_own_words_are_kept() -> None:
    assert refused("ValidationException", "1 error").detail == (
        "AWS refused to create the job (ValidationException): 1 error"
    )


def test_a_request_that_botocore_refuses_is_refused_by_its_reason() -> None:
    with pytest.raises(errors.BackendRejected, match="is not valid"), translated("create the job"):
        raise ParamValidationError(report="Unknown parameter")


def test_a_call_that_did_not_go_through_is_tried_again() -> None:
    with pytest.raises(errors.RetryableError), translated("create the job"):
        raise EndpointConnectionError(endpoint_url="https://example.com")


@pytest.mark.parametrize(
    ("reason", "lacks"),
    [
        (CAPACITY, True),
        ("There is not sufficient capacity for instance type ml.p5.48xlarge", True),
        ("Insufficient instance capacity in the requested zone", True),
        ("AlgorithmError: ExecuteUserScriptError: exit code 1", False),
        ("InternalServerError: We encountered an internal error. Please try again.", False),
        ("", False),
    ],
)
def test_a_job_that_failed_for_want_of_nodes_is_told_from_others(reason: str, lacks: bool) -> None:
    assert lacks_capacity(reason) is lacks
