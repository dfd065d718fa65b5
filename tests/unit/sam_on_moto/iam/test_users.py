"""Users of IAM sign with their own keys, and a role is assumed by whom its trust names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from sam_on_moto.iam.access import Access, Denied, Principal
from sam_on_moto.iam.trust import require_trust

ACCOUNT = "123456789012"
API = f"arn:aws:execute-api:us-east-1:{ACCOUNT}:abc/$default/GET/v1/runs"


@pytest.fixture
def iam(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield boto3.client("iam", region_name="us-east-1")


def made(iam: Any, name: str) -> str:
    """The access key of a new user without any policy."""
    iam.create_user(UserName=name)
    return str(iam.create_access_key(UserName=name)["AccessKey"]["AccessKeyId"])


def allow(iam: Any, name: str, action: str, resource: str) -> None:
    statement = {"Effect": "Allow", "Action": action, "Resource": resource}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=name, PolicyName=action.replace(":", "-"), PolicyDocument=document)


def principal(access: Access, key: str) -> Principal:
    found = access.principal(key)
    assert found is not None
    return found


def test_a_users_key_is_theirs_until_it_is_inactive_or_gone(iam: Any) -> None:
    access, key = Access(ACCOUNT), made(iam, "alice")
    alice = principal(access, key)
    assert (alice.arn, alice.user) == (f"arn:aws:iam::{ACCOUNT}:user/alice", "alice")
    assert alice.user_id.startswith("AIDA")
    assert not alice.owns_all
    iam.update_access_key(UserName="alice", AccessKeyId=key, Status="Inactive")
    assert access.principal(key) is None
    iam.update_access_key(UserName="alice", AccessKeyId=key, Status="Active")
    iam.delete_access_key(UserName="alice", AccessKeyId=key)
    assert access.principal(key) is None


def test_a_user_who_is_made_again_has_another_id(iam: Any) -> None:
    access, key = Access(ACCOUNT), made(iam, "alice")
    before = principal(access, key).user_id
    iam.delete_access_key(UserName="alice", AccessKeyId=key)
    iam.delete_user(UserName="alice")
    assert principal(access, made(iam, "alice")).user_id != before


def test_a_user_may_what_their_policies_say(iam: Any) -> None:
    access, key = Access(ACCOUNT), made(iam, "alice")
    with pytest.raises(Denied, match="no policy allows"):
        access.require(principal(access, key), "execute-api:Invoke", API)
    allow(iam, "alice", "execute-api:Invoke", API)
    access.require(principal(access, key), "execute-api:Invoke", API)
    with pytest.raises(Denied):
        access.require(principal(access, key), "execute-api:Invoke", API.replace("GET", "POST"))


def role(iam: Any, name: str, **statement: Any) -> str:
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", **statement}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    made_ = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]
    return str(made_["Arn"])


def test_a_role_is_assumed_by_whom_its_trust_names_and_with_no_other_name(iam: Any) -> None:
    access = Access(ACCOUNT)
    alice, bob = (principal(access, made(iam, name)) for name in ("alice", "bob"))
    named = {"StringEquals": {"sts:RoleSessionName": "${aws:username}"}}
    hers = role(iam, "hers", Principal={"AWS": alice.arn}, Condition=named)
    all_ = role(iam, "all", Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, Condition=named)
    require_trust(access, alice, hers, "alice")
    require_trust(access, bob, all_, "bob")
    for who, arn, session in (
        (alice, hers, "bob"),
        (bob, hers, "bob"),
        (bob, all_, "alice"),
        (alice, f"arn:aws:iam::{ACCOUNT}:role/none", "alice"),
    ):
        with pytest.raises(Denied, match="sts:AssumeRole"):
            require_trust(access, who, arn, session)
    require_trust(access, access.owner, hers, "anybody")


def test_a_role_that_trusts_a_service_is_no_persons(iam: Any) -> None:
    access = Access(ACCOUNT)
    alice = principal(access, made(iam, "alice"))
    theirs = role(iam, "lambda", Principal={"Service": "lambda.amazonaws.com"})
    with pytest.raises(Denied):
        require_trust(access, alice, theirs, "alice")


def test_two_roles_of_similar_names_have_ids_of_their_own(iam: Any) -> None:
    access = Access(ACCOUNT)
    arns = [role(iam, f"research-cluster-{n}", Principal={"AWS": ACCOUNT}) for n in (1, 2)]
    first, second = (access.issue(arn, "s").user_id for arn in arns)
    assert first != second
    assert first.endswith(":s")
