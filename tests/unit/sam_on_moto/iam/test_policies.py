"""IAM policies decide as IAM does, and a condition that is not known is not guessed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.iam_policies import statement

from sam_on_moto.iam import policies


@pytest.mark.parametrize(
    ("documents", "action", "resource", "context", "verdict"),
    [
        ([], "s3:GetObject", "arn:x", {}, "implicit-deny"),
        ([statement("Allow", "s3:Get*", "arn:x*")], "s3:GetObject", "arn:xyz", {}, "allow"),
        ([statement("Allow", "S3:GETOBJECT", "arn:x")], "s3:GetObject", "arn:x", {}, "allow"),
        ([statement("Allow", "s3:*", "arn:X")], "s3:GetObject", "arn:x", {}, "implicit-deny"),
        (
            [statement("Allow", "*", "*"), statement("Deny", "s3:Put*", "*")],
            "s3:PutObject",
            "a",
            {},
            "explicit-deny",
        ),
        (
            [statement("Allow", "*", "*", StringEquals={"events:source": "me"})],
            "a:b",
            "c",
            {"events:source": ["me"]},
            "allow",
        ),
        (
            [statement("Allow", "*", "*", StringEquals={"events:source": "me"})],
            "a:b",
            "c",
            {"events:source": ["you"]},
            "implicit-deny",
        ),
        (
            [statement("Allow", "*", "*", StringEquals={"events:source": "me"})],
            "a:b",
            "c",
            {},
            "implicit-deny",
        ),
        ([statement("Allow", "*", "*", StringNotEquals={"k": "v"})], "a:b", "c", {}, "allow"),
        (
            [statement("Allow", "*", "*", StringLike={"s3:prefix": ["runs/*"]})],
            "a:b",
            "c",
            {"s3:prefix": "runs/1"},
            "allow",
        ),
        ([statement("Allow", "*", "*", Null={"k": True})], "a:b", "c", {}, "allow"),
        (
            [statement("Deny", "*", "*", Bool={"aws:SecureTransport": "false"})],
            "a:b",
            "c",
            {"aws:securetransport": "true"},
            "implicit-deny",
        ),
        (
            [statement("Allow", "*", "*", StringEquals={"a": "${b}"})],
            "a:b",
            "c",
            {"a": "1", "b": "1"},
            "allow",
        ),
        (
            [statement("Allow", "*", "*", **{"ForAllValues:StringEquals": {"t": ["x", "y"]}})],
            "a:b",
            "c",
            {"t": ["x", "z"]},
            "implicit-deny",
        ),
    ],
)
def test_policies_decide_as_iam_does(
    documents: Any, action: str, resource: str, context: Any, verdict: str
) -> None:
    assert policies.evaluate(documents, action, resource, context) == verdict


def test_an_unknown_condition_operator_is_not_guessed() -> None:
    with pytest.raises(policies.Unsupported, match="DateGreaterThan"):
        policies.evaluate(
            [statement("Allow", "*", "*", DateGreaterThan={"k": "v"})], "a:b", "c", {"k": "1"}
        )
