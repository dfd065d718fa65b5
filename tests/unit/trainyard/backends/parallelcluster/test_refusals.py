"""Each answer that is none becomes our error, with ParallelCluster's words whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.parallelcluster_specs import SUBNET, spec

from trainyard.backends.parallelcluster.refusals import (
    Gone,
    Invalid,
    Refused,
    refused,
    wrong_version,
)
from trainyard.domain import errors
from trainyard_contracts.parallelcluster import ParallelClusterSpec


def judged(status: int, body: Any) -> errors.TrainyardError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refused(Refused.of("POST /v3/clusters", status, data))


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (404, {"message": "Cluster 'x' does not exist"}, Gone, "'x' does not exist"),
        (400, {"message": "Cluster x does not exist"}, Gone, "does not exist"),
        (400, {"message": "Bad Request: Cluster x already exists."}, errors.ClusterExists, "x"),
        (409, {"message": "another operation"}, errors.ConflictError, "another operation"),
        (
            400,
            {"message": "Cannot execute update while stack is in UPDATE_IN_PROGRESS status."},
            errors.ConflictError,
            "UPDATE_IN_PROGRESS",
        ),
        (429, {"message": "Too Many Requests"}, errors.Throttled, "Too Many"),
        (500, {"message": "boom"}, errors.RetryableError, "boom"),
        (504, {"message": "Endpoint request timed out"}, errors.RetryableError, "timed out"),
        (502, b"<html>bad gateway</html>", errors.RetryableError, "bad gateway"),
        (403, {"Message": "User is not authorized"}, errors.BackendRejected, "not authorized"),
        (400, {"message": "Bad Request: region"}, Invalid, "region"),
    ],
)
def test_an_answer_is_our_error_with_its_words(
    status: int, body: Any, kind: type[errors.TrainyardError], words: str
) -> None:
    error = judged(status, body)
    assert isinstance(error, kind)
    assert words in error.detail
    assert f"({status})" in error.detail


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, {"message": "Missing Authentication Token"}),
        (200, b"<html>a page of another program</html>"),
        (404, b"not found"),
    ],
)
def test_an_address_that_is_not_the_apis_is_told_with_what_to_deploy(
    status: int, body: Any
) -> None:
    assert "Deploy ParallelCluster's API stack" in judged(status, body).next_step


def test_a_caller_without_permission_is_told_which_one() -> None:
    assert "execute-api:Invoke" in judged(403, {"message": "not authorized"}).next_step


@pytest.mark.parametrize(
    ("version", "fits"), [("3.16.1", True), ("3.16.4", True), ("3.15.0", False), ("4.0.0", False)]
)
def test_an_api_of_another_minor_version_is_refused(version: str, fits: bool) -> None:
    assert (wrong_version(version) is None) == fits


FINDINGS = [
    {"level": "WARNING", "type": "KeyPairValidator", "message": "no key"},
    {
        "level": "ERROR",
        "type": "InstancesEFAValidator",
        "message": "Instance type(s) (c5.xlarge) do not support EFA",
    },
]
REFUSAL = {
    "message": "Invalid cluster configuration.",
    "configurationValidationErrors": FINDINGS,
}


def test_every_error_is_kept_and_told_by_our_field_and_warnings_are_not() -> None:
    error = judged(400, REFUSAL)
    assert isinstance(error, Invalid)
    assert "InstancesEFAValidator: Instance type(s) (c5.xlarge)" in error.detail
    told = error.told_of(ParallelClusterSpec.model_validate(spec()))
    assert [(one.field, one.message) for one in told.errors] == [
        ("queues.0.efa", FINDINGS[1]["message"])
    ]
    assert [finding.level for finding in told.findings] == ["WARNING", "ERROR"]


def test_a_sentence_without_findings_is_placed_by_the_names_in_it() -> None:
    """What breaks a validator itself comes so."""
    message = f"Invalid cluster configuration: The subnet ID '{SUBNET}' does not exist"
    error = judged(400, {"message": message})
    assert isinstance(error, Invalid)
    told = error.told_of(ParallelClusterSpec.model_validate(spec()))
    assert [(one.field, one.message) for one in told.errors] == [("queues.0.subnetIds", message)]
