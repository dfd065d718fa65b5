"""A call is decided on the resources' ARNs that AWS documents for it."""

from __future__ import annotations

from tests.support.iam_policies import statement

from sam_on_moto.iam import arns, policies


def test_a_session_to_a_node_is_decided_on_the_arns_that_aws_documents() -> None:
    asked = {
        "Target": "sagemaker-cluster:abc_workers-i-1",
        "DocumentName": "AWS-StartNonInteractiveCommand",
    }
    namer = arns.Namer("us-east-1", "123456789012")
    found = arns.resources("ssm", "StartSession", asked, "/", namer)
    assert found == [
        "arn:aws:ssm:us-east-1:123456789012:managed-instance/sagemaker-cluster:abc_workers-i-1",
        "arn:aws:ssm:us-east-1::document/AWS-StartNonInteractiveCommand",
    ]
    too_wide = [
        statement("Allow", "ssm:StartSession", "*"),
        statement("Deny", "ssm:StartSession", "arn:aws:ssm:*:*:managed-instance/*"),
    ]
    assert policies.evaluate(too_wide, "ssm:StartSession", found[0], {}) == "explicit-deny"
    assert arns.resources("ssm", "StartSession", {"Target": "mi-1"}, "/", namer)[0].endswith(
        "managed-instance/mi-1"
    )
    assert arns.resources("ssm", "StartSession", {"Target": "i-1"}, "/", namer)[0].endswith(
        ":instance/i-1"
    )
