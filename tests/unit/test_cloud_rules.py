"""The local cloud's own decisions: event patterns, IAM policies, signatures, state machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sam_on_moto import step_functions
from sam_on_moto.bus import patterns
from sam_on_moto.functions import logs
from sam_on_moto.iam import arns, policies
from sam_on_moto.iam.access import Access, Denied, Principal
from sam_on_moto.iam.signatures import Rejected, SignedRequest, verify
from sam_on_moto.moto_patches import pinned

EVENT = {
    "source": "a.b",
    "detail": {
        "n": 5,
        "s": "Hello",
        "ok": True,
        "list": ["x", "y"],
        "deep": [{"k": 1}, {"k": 2}],
        "none": None,
    },
}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"source": ["a.b"]}, True),
        ({"source": ["c", "a.b"]}, True),
        ({"source": ["c"]}, False),
        ({"source": [{"prefix": "a."}], "detail": {"s": [{"suffix": "lo"}]}}, True),
        ({"detail": {"s": [{"equals-ignore-case": "hELLO"}]}}, True),
        ({"detail": {"s": [{"wildcard": "H*l*"}]}}, True),
        ({"detail": {"s": [{"anything-but": ["Hello"]}]}}, False),
        ({"detail": {"s": [{"anything-but": {"prefix": "X"}}]}}, True),
        ({"detail": {"n": [{"numeric": [">", 3, "<=", 5]}]}}, True),
        ({"detail": {"n": [{"numeric": [">", 5]}]}}, False),
        ({"detail": {"ok": [1]}}, False),
        ({"detail": {"ok": [True]}}, True),
        ({"detail": {"list": ["y"]}}, True),
        ({"detail": {"list": ["z"]}}, False),
        ({"detail": {"deep": {"k": [2]}}}, True),
        ({"detail": {"deep": {"k": [3]}}}, False),
        ({"detail": {"missing": [{"exists": False}]}}, True),
        ({"detail": {"n": [{"exists": True}]}}, True),
        ({"detail": {"none": [None]}}, True),
        ({"$or": [{"source": ["c"]}, {"detail": {"n": [5]}}]}, True),
    ],
)
def test_patterns_match_as_eventbridge_does(pattern: dict[str, Any], expected: bool) -> None:
    patterns.check(pattern)
    assert patterns.matches(EVENT, pattern) is expected


def test_an_unknown_filter_is_refused_when_the_rule_is_made() -> None:
    with pytest.raises(ValueError, match="'soundex'"):
        patterns.check({"detail": {"s": [{"soundex": "x"}]}})


def statement(effect: str, action: Any, resource: Any, **condition: Any) -> dict[str, Any]:
    return {
        "Statement": [
            {
                "Effect": effect,
                "Action": action,
                "Resource": resource,
                **({"Condition": condition} if condition else {}),
            }
        ]
    }


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


def test_the_owner_may_do_everything_and_a_role_without_policies_nothing() -> None:
    access = Access("123456789012")
    access.require(access.owner, "s3:GetObject", "arn:aws:s3:::x/y")
    nobody = access.issue("arn:aws:iam::123456789012:role/nobody", "s")
    assert access.issue("arn:aws:iam::123456789012:role/nobody", "s") is nobody
    with pytest.raises(Denied, match="no policy allows the action"):
        access.require(nobody, "s3:GetObject", "arn:aws:s3:::x/y")
    assert access.report()["denials"][0]["action"] == "s3:GetObject"


def test_without_enforcement_a_role_may_do_everything() -> None:
    access = Access("123456789012", enforce=False)
    access.require(
        access.issue("arn:aws:iam::123456789012:role/nobody", "s"),
        "s3:GetObject",
        "arn:aws:s3:::x/y",
    )


KEYS = Principal("AKIAME", "secret", None, "arn", None, "id")
ROLE = Principal("ASIAME", "secret", "token", "arn", "role", "id")


def signed(
    principal: Principal = KEYS,
    *,
    method: str = "POST",
    path: str = "/v1/runs/run-1:cancel?b=2&a=x%20y",
    body: bytes = b"{}",
    secret: str = "secret",
    **scope: str,
) -> SignedRequest:
    request = AWSRequest(
        method=method,
        url="http://127.0.0.1:4780" + path,
        data=body,
        headers={"Host": "127.0.0.1:4780", "X-Mine": " a  b "},
    )
    keys = Credentials(principal.access_key_id, secret, principal.session_token)
    SigV4Auth(keys, scope.get("service", "execute-api"), scope.get("region", "us-east-1")).add_auth(
        request
    )
    return SignedRequest(
        method, request.url, {name.lower(): value for name, value in request.headers.items()}, body
    )


def check(request: SignedRequest, **later: float) -> Principal:
    now = datetime.now(timezone.utc) + timedelta(**later)
    keys = {p.access_key_id: p for p in (KEYS, ROLE)}
    return verify(request, keys.get, region="us-east-1", service="execute-api", now=now)


def changed(request: SignedRequest, **changes: Any) -> SignedRequest:
    return SignedRequest(**{**request.__dict__, **changes})


@pytest.mark.parametrize("principal", [KEYS, ROLE])
def test_a_true_signature_is_accepted(principal: Principal) -> None:
    assert check(signed(principal)) is principal
    assert check(signed(principal, method="GET", path="/", body=b"")) is principal
    assert check(signed(principal), minutes=4) is principal


@pytest.mark.parametrize(
    ("false_request", "message"),
    [
        (lambda: changed(signed(), headers={}), "Missing Authentication Token"),
        (lambda: signed(secret="wrong"), "does not match"),
        (lambda: changed(signed(), body=b"[]"), "does not match"),
        (lambda: changed(signed(), method="GET"), "does not match"),
        (
            lambda: changed(signed(), url="http://127.0.0.1:4780/v1/runs/run-2:cancel?b=2&a=x%20y"),
            "does not match",
        ),
        (
            lambda: changed(signed(), url="http://127.0.0.1:4780/v1/runs/run-1:cancel?b=3&a=x%20y"),
            "does not match",
        ),
        (
            lambda: changed(signed(), headers={**signed().headers, "x-mine": "other"}),
            "does not match",
        ),
        (
            lambda: signed(Principal("AKIASTRANGER", "secret", None, "", None, "")),
            "security token included in the request is invalid",
        ),
        (
            lambda: changed(
                signed(ROLE),
                headers={
                    k: v for k, v in signed(ROLE).headers.items() if k != "x-amz-security-token"
                },
            ),
            "invalid",
        ),
        (lambda: signed(region="eu-west-1"), "scoped to region 'us-east-1'"),
        (lambda: signed(service="s3"), "service 'execute-api'"),
        (
            lambda: changed(signed(), headers={**signed().headers, "authorization": "Bearer x"}),
            "requires an AWS4-HMAC-SHA256",
        ),
        (
            lambda: changed(
                signed(), headers={**signed().headers, "x-amz-content-sha256": "0" * 64}
            ),
            "body does not match",
        ),
    ],
)
def test_a_false_signature_is_refused(
    false_request: Callable[[], SignedRequest], message: str
) -> None:
    with pytest.raises(Rejected, match=message):
        check(false_request())


@pytest.mark.parametrize("minutes", [6, -6])
def test_a_signature_more_than_five_minutes_off_is_refused(minutes: int) -> None:
    with pytest.raises(Rejected, match="Signature expired"):
        check(signed(), minutes=minutes)


def definition(**state: Any) -> str:
    task = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": True}
    return json.dumps({"StartAt": "A", "States": {"A": {**task, **state}}})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"Resource": "arn:aws:states:::dynamodb:putItem"}, "state A: the local cloud runs"),
        ({"QueryLanguage": "JSONata"}, "JSONPath states only"),
        (
            {"Catch": [{"ErrorEquals": ["States.ALL"], "Next": "B"}]},
            "leads to B, which does not exist",
        ),
        (
            {
                "Type": "Map",
                "ItemProcessor": {"StartAt": "X", "States": {"X": {"Type": "Pass", "Next": "Y"}}},
            },
            "state X: leads to Y",
        ),
    ],
)
def test_a_machine_that_would_not_run_as_on_aws_is_refused(
    state: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        step_functions.check_definition("m", definition(**state))


def test_a_hook_whose_target_is_gone_says_so() -> None:
    class Backend:
        def there(self, a: int) -> None: ...

    with pytest.raises(pinned.MotoChanged, match=r"Backend.gone any more"):
        pinned.replace(Backend, "gone", None)
    with pytest.raises(pinned.MotoChanged, match=r"takes \('self', 'a'\), not \('self', 'b'\)"):
        pinned.replace(Backend, "there", None, parameters=("self", "b"))


def test_log_lines_whose_clock_went_back_are_written_in_their_order_and_not_refused() -> None:
    entries = [
        ("g", "s", 20, ["first"]),
        ("g", "other", 5, ["x"]),
        ("g", "s", 19, ["second"]),
        ("g", "s", 25, ["third"]),
    ]
    batch = logs.by_stream(entries)["g", "s"]
    assert [(event["timestamp"], event["message"]) for event in batch] == [
        (20, "first"),
        (20, "second"),
        (25, "third"),
    ]
