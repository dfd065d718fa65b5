"""Policies of nodes against IAM's own model: made once, found by their path, deleted once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import boto3
import pytest
from botocore.stub import ANY, Stubber
from tests.support.parallelcluster_specs import making

from trainyard.aws.policies import IamPolicies
from trainyard.backends.parallelcluster.policies import node_policy, policies_path, policy_of
from trainyard.domain import errors
from trainyard.outside.policies import FoundPolicy

T0 = datetime(2026, 11, 20, tzinfo=timezone.utc)
POLICY = policy_of(making())
#: Of a managed policy, without white space.
LARGEST = 6144


@pytest.fixture
def iam() -> Iterator[tuple[IamPolicies, Stubber]]:
    client = boto3.client(
        "iam", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(client) as stub:
        yield IamPolicies(client), stub
        stub.assert_no_pending_responses()


def test_a_policy_is_made_once(iam: tuple[IamPolicies, Stubber]) -> None:
    policies, stub = iam
    given = {
        "PolicyName": POLICY.name,
        "Path": POLICY.path,
        "PolicyDocument": ANY,
        "Description": ANY,
        "Tags": [
            {"Key": "trainyard:stage", "Value": "prod"},
            {"Key": "trainyard:cluster", "Value": "llm-pretrain"},
        ],
    }
    stub.add_response("create_policy", {}, given)
    stub.add_client_error("create_policy", "EntityAlreadyExists")
    policies.ensure(POLICY)
    policies.ensure(POLICY)


def test_a_policy_that_is_gone_is_deleted(iam: tuple[IamPolicies, Stubber]) -> None:
    policies, stub = iam
    stub.add_response("delete_policy", {}, {"PolicyArn": POLICY.arn})
    stub.add_client_error("delete_policy", "NoSuchEntity")
    policies.delete(POLICY.arn)
    policies.delete(POLICY.arn)


def test_a_policy_that_a_role_still_has_is_tried_again(iam: tuple[IamPolicies, Stubber]) -> None:
    policies, stub = iam
    stub.add_client_error("delete_policy", "DeleteConflict", "Cannot delete a policy attached.")
    with pytest.raises(errors.RetryableError, match="attached"):
        policies.delete(POLICY.arn)


def test_those_of_the_stack_are_found_page_by_page(iam: tuple[IamPolicies, Stubber]) -> None:
    policies, stub = iam
    asked = {"Scope": "Local", "PathPrefix": "/parallelcluster/trainyard/prod/", "MaxItems": 100}
    page = {"Policies": [{"Arn": POLICY.arn, "Path": POLICY.path, "CreateDate": T0}]}
    stub.add_response("list_policies", {**page, "IsTruncated": True, "Marker": "m"}, asked)
    stub.add_response("list_policies", page, {**asked, "Marker": "m"})
    found = policies.below(policies_path(making().settings))
    assert found == 2 * [FoundPolicy(POLICY.arn, POLICY.path, T0)]


def test_the_policy_of_a_rich_spec_is_no_larger_than_aws_takes() -> None:
    size = sum(not letter.isspace() for letter in str(node_policy(making())))
    assert size < LARGEST / 2, "32 secrets of a spec may come on top"
