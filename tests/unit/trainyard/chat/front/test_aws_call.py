"""A call that is signed by hand is signed as botocore signs it."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from trainyard.chat.front import aws_call
from trainyard.chat.front.aws_call import AwsCalls, CallFailed, signed

NOW = datetime(2026, 11, 27, 23, 5, 9, tzinfo=timezone.utc)
KEYS = {
    "AWS_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
}


@pytest.mark.parametrize("token", ["", "a+token/of=a session"])
def test_the_signature_is_that_of_botocore(token: str) -> None:
    environ = {**KEYS, "AWS_SESSION_TOKEN": token}
    host, body = "events.eu-west-1.amazonaws.com", b'{"Entries": []}'
    headers = signed(environ, "events", "AWSEvents.PutEvents", host, body, NOW)
    keys = Credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"], token or None)
    others = SigV4Auth(keys, "events", "eu-west-1")
    request = AWSRequest(
        method="POST",
        url=f"https://{host}/",
        data=body,
        headers={name: value for name, value in headers.items() if name != "authorization"},
    )
    request.context["timestamp"] = headers["x-amz-date"]
    text = others.string_to_sign(request, others.canonical_request(request))
    expected = others.signature(text, request)
    assert headers["authorization"].endswith(f"Signature={expected}")


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-west-1", "https://events.eu-west-1.amazonaws.com"),
        ("cn-north-1", "https://events.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_a_service_is_called_in_the_functions_own_region(region: str, url: str) -> None:
    assert AwsCalls({**KEYS, "AWS_REGION": region})._url("events") == url


@pytest.mark.parametrize(
    ("status", "content"),
    [(400, b'{"__type": "AccessDeniedException"}'), (200, b"<html>"), (200, b"[]"), (500, b"")],
)
def test_a_refusal_of_aws_says_which_call_it_was(status: int, content: bytes) -> None:
    with pytest.raises(CallFailed, match=rf"AWSEvents.PutEvents: HTTP {status}"):
        aws_call._read("AWSEvents.PutEvents", status, content)
