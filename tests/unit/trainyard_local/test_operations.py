"""The local cloud refuses what it does not do, and does what the product may do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from moto.core.exceptions import ServiceException
from moto.s3.responses import ACTION_MAP
from tests.support.iam_policies import statement
from tests.support.repository import ROOT

from sam_on_moto.iam import arns, policies
from sam_on_moto.inside import calls
from sam_on_moto.moto_patches import supported
from sam_on_moto.moto_patches.supported import refusal
from trainyard_local import operations
from trainyard_local.hyperpod import requests as hyperpod_requests
from trainyard_local.operations import FINDERS, OPERATIONS
from trainyard_local.sessions import service as sessions

#: IAM's names of operations that boto3 calls otherwise, and permissions of no call to the cloud.
_PERMISSIONS = {
    "dynamodb:ConditionCheckItem",
    "lambda:InvokeFunction",
    "s3:ListBucket",
    "ec2",
    "logs",
    "iam:PassRole",
    "pricing",
} | {
    "iam:TagRole",  # CreateRole with tags
    "iam:CreateServiceLinkedRole",  # CreateCluster and CreateFileSystem, the first time
    "iam:AttachRolePolicy",  # CreateDataRepositoryAssociation
}


def test_every_action_that_the_template_allows_is_done() -> None:
    actions = set(
        re.findall(
            r"\b((?:dynamodb|events|iam|s3|sagemaker|secretsmanager|sqs|ssm|states|sts):[A-Z][A-Za-z]+)\b(?!\":)",
            _statements(),
        )
    )
    assert len(actions) > 30
    missing = {
        action for action in actions - _PERMISSIONS if refusal(*action.split(":"), OPERATIONS)
    }
    assert missing == set()


def _statements() -> str:
    return re.sub(r"#.*", "", (ROOT / "template.yaml").read_text())


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("ssm", "CreateActivation"),
        ("sagemaker", "CreateProcessingJob"),
        ("sagemaker", "CreateNotebookInstance"),
        ("sns", "SetSMSAttributes"),
        ("s3", None),
    ],
)
def test_what_is_not_done_is_refused_with_what_is(service: str, operation: str | None) -> None:
    reason = refusal(service, operation, OPERATIONS)
    assert reason is not None
    assert f"does not do {service}:{operation}" in reason
    assert all(name in reason for name in OPERATIONS[service])


def test_only_trainyards_local_cloud_does_clusters_and_sessions() -> None:
    assert refusal("sagemaker", "CreateCluster", OPERATIONS) is None
    assert refusal("sagemaker", "CreateCluster") is not None
    assert refusal("ssm", "StartSession") is not None
    assert supported.OPERATIONS.items() < OPERATIONS.items()


@pytest.mark.parametrize(
    ("operation", "given", "word"),
    [
        ("CreateCluster", {"ClusterName": "a", "AutoScaling": {"Mode": "Enable"}}, "AutoScaling"),
        (
            "CreateCluster",
            {"ClusterName": "a", "Orchestrator": {"Eks": {"ClusterArn": "a"}}},
            "Eks",
        ),
        ("ListClusters", {"CreationTimeAfter": 1}, "CreationTimeAfter"),
        ("ListClusterNodes", {"ClusterName": "a", "SortBy": "NAME"}, "SortBy"),
        (
            "BatchReplaceClusterNodes",
            {"ClusterName": "a", "NodeLogicalIds": ["x"]},
            "NodeLogicalIds",
        ),
    ],
)
def test_a_parameter_that_would_be_passed_over_is_refused(
    operation: str, given: dict[str, Any], word: str
) -> None:
    with pytest.raises(
        hyperpod_requests.ValidationException, match=f"the local cloud does not do .*{word}"
    ):
        hyperpod_requests.check_parameters(operation, given)


@pytest.mark.parametrize(
    ("document", "code", "words"),
    [
        (None, "NotImplemented", "does not do an interactive shell"),
        ("SSM-SessionManagerRunShell", "NotImplemented", "does not do an interactive shell"),
        ("AWS-StartSSHSession", "NotImplemented", "does not do SSH through a session"),
        ("AWS-StartPortForwardingSession", "NotImplemented", "does not do forwarded ports"),
        ("My-Own", "InvalidDocument", "does not exist"),
    ],
)
def test_a_session_of_another_kind_is_refused_with_the_true_reason(
    document: str | None, code: str, words: str
) -> None:
    with pytest.raises(ServiceException) as refused:
        sessions._check_document(document)
    assert refused.value.code == code
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"command": ["true"], "portNumber": ["22"]}, "has no parameter portNumber"),
        ({"command": ["true", "false"]}, "command takes exactly one value"),
        ({"command": ["true"], "separateOutputStream": ["yes"]}, "must be true or false"),
        ({}, "command is required"),
    ],
)
def test_parameters_of_a_session_that_mean_nothing_are_refused(
    given: dict[str, list[str]], word: str
) -> None:
    with pytest.raises(ServiceException) as refused:
        sessions._parameters(given)
    assert refused.value.code == "InvalidParameters"
    assert word in refused.value.message


def test_files_of_a_bucket_that_does_not_exist_cannot_be_read() -> None:
    """A cluster with such a lifecycle bucket fails by this error; else it would stay Creating."""
    with pytest.raises(
        FileNotFoundError, match="s3://no-such-bucket/x: The specified bucket does not exist"
    ):
        calls.read_prefix("no-such-bucket", "x")


@pytest.mark.parametrize(
    "name",
    [
        "ListBucket",
        "ListBucketVersions",
        "GetObjectVersion",
        "ListMultipartUploadParts",
        "GetLifecycleConfiguration",
    ],
)
def test_what_moto_calls_by_iams_names_is_done_too(name: str) -> None:
    """moto names some of S3's requests by the permission that they need."""
    assert any(
        name in methods.values() for kinds in ACTION_MAP.values() for methods in kinds.values()
    )
    assert refusal("s3", name) is None


def test_a_session_to_a_node_is_decided_on_the_arns_that_aws_documents() -> None:
    asked = {
        "Target": "sagemaker-cluster:abc_workers-i-1",
        "DocumentName": "AWS-StartNonInteractiveCommand",
    }
    namer = arns.Namer("us-east-1", "123456789012")
    found = arns.resources(FINDERS, "ssm", "StartSession", asked, "/", namer)
    assert found == [
        "arn:aws:ssm:us-east-1:123456789012:managed-instance/sagemaker-cluster:abc_workers-i-1",
        "arn:aws:ssm:us-east-1::document/AWS-StartNonInteractiveCommand",
    ]
    too_wide = [
        statement("Allow", "ssm:StartSession", "*"),
        statement("Deny", "ssm:StartSession", "arn:aws:ssm:*:*:managed-instance/*"),
    ]
    assert policies.evaluate(too_wide, "ssm:StartSession", found[0], {}) == "explicit-deny"
    for target, resource in {"mi-1": "managed-instance/mi-1", "i-1": "instance/i-1"}.items():
        [arn] = arns.resources(FINDERS, "ssm", "StartSession", {"Target": target}, "/", namer)
        assert arn.endswith(f":{resource}")


def test_who_makes_a_cluster_passes_the_roles_of_all_its_groups() -> None:
    groups = [{"ExecutionRole": "b"}, {"ExecutionRole": "a"}, {"ExecutionRole": "b"}, {}]
    passed = operations.access().passed_roles["sagemaker"]
    assert passed("CreateCluster", {"InstanceGroups": groups}) == ["a", "b"]
    assert passed("DeleteCluster", {"InstanceGroups": groups}) == []


def test_who_makes_a_training_job_passes_its_role() -> None:
    passed = operations.access().passed_roles["sagemaker"]
    assert passed("CreateTrainingJob", {"RoleArn": "a"}) == ["a"]
    assert passed("StopTrainingJob", {"TrainingJobName": "a"}) == []
