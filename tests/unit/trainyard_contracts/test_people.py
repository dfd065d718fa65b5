"""A person is who the gateway names, and one person stays the same from key to key."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard_contracts.people import Person, named, person_of

ACCOUNT = "111122223333"


def iam(arn: str, identity: str, **more: Any) -> dict[str, Any]:
    """What an HTTP API with IAM authorization puts into requestContext.authorizer.iam."""
    return {
        "accessKey": "ASIAEXAMPLE",
        "accountId": ACCOUNT,
        "callerId": identity,
        "cognitoIdentity": None,
        "principalOrgId": None,
        "userArn": arn,
        "userId": identity,
        **more,
    }


@pytest.mark.parametrize(
    ("arn", "identity", "name", "kind"),
    [
        (f"arn:aws:iam::{ACCOUNT}:user/alice", "AIDA1", "alice", "user"),
        (f"arn:aws:iam::{ACCOUNT}:user/ml/alice", "AIDA1", "alice", "user"),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/R/bob@x.org", "AROA1:bob@x.org", "bob@x.org",
         "session"),
        (f"arn:aws-cn:sts::{ACCOUNT}:assumed-role/R/bob", "AROA1:bob", "bob", "session"),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/carol", f"{ACCOUNT}:carol", "carol",
         "federated-user"),
        (f"arn:aws:iam::{ACCOUNT}:root", ACCOUNT, "root", "root"),
    ],
)  # fmt: skip
def test_a_person_is_read_from_the_gateways_context(
    arn: str, identity: str, name: str, kind: str
) -> None:
    person = person_of(iam(arn, identity))
    assert (person.id, person.arn, person.account) == (identity, arn, ACCOUNT)
    assert (person.name, person.kind) == (name, kind)


def test_sessions_that_nobody_named_are_one_person_whatever_their_number() -> None:
    def session(number: int) -> Person:
        name = f"botocore-session-{number}"
        return person_of(iam(f"arn:aws:sts::{ACCOUNT}:assumed-role/R/{name}", f"AROA1:{name}"))

    assert session(1764000000).same_as(session(1764003600))
    assert session(1).name == "R"
    assert session(1).kind == "role"
    assert session(1).arn == f"arn:aws:iam::{ACCOUNT}:role/R"
    alice = person_of(iam(f"arn:aws:sts::{ACCOUNT}:assumed-role/R/alice", "AROA1:alice"))
    assert not session(1).same_as(alice)


def test_identities_of_one_cognito_pool_are_not_one_person() -> None:
    arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/Pool/CognitoIdentityCredentials"

    def identity(name: str) -> Person:
        pool = {"amr": ["authenticated"], "identityId": name, "identityPoolId": "us-east-1:p"}
        return person_of(iam(arn, "AROA1:CognitoIdentityCredentials", cognitoIdentity=pool))

    assert not identity("us-east-1:a").same_as(identity("us-east-1:b"))
    assert identity("us-east-1:a").kind == "cognito"


def test_a_later_user_of_the_same_name_is_another_person() -> None:
    arn = f"arn:aws:iam::{ACCOUNT}:user/alice"
    assert not person_of(iam(arn, "AIDA1")).same_as(person_of(iam(arn, "AIDA2")))


def test_one_who_was_only_named_is_known_by_the_arn() -> None:
    arn = f"arn:aws:iam::{ACCOUNT}:user/alice"
    assert named(arn).same_as(person_of(iam(arn, "AIDA1")))
    assert not named(arn).same_as(named(f"arn:aws:iam::{ACCOUNT}:user/bob"))


@pytest.mark.parametrize(
    "given",
    [
        {},
        iam("", "AIDA1"),
        iam(f"arn:aws:iam::{ACCOUNT}:user/alice", ""),
        iam("alice", "AIDA1"),
        iam(f"arn:aws:iam::{ACCOUNT}:group/g", "AGPA1"),
        iam(f"arn:aws:sts::{ACCOUNT}:assumed-role/R", "AROA1"),
        iam("arn:aws:iam::1:user/alice", "AIDA1"),
    ],
)
def test_what_names_nobody_is_nobody(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"userId|ARN|names neither"):
        person_of(given)
