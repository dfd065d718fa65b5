"""A request's signature is verified as AWS does: true ones pass, false and late ones do not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import botocore.session
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from sam_on_moto.iam.access import Principal
from sam_on_moto.iam.signatures import (
    Rejected,
    SignedRequest,
    is_presigned,
    verify,
    verify_presigned,
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


# -- presigned URLs ------------------------------------------------------------------------------
BOUND = {
    "x-amz-checksum-sha256": "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=",
    "content-length": "4",
}


def presigned(principal: Principal = KEYS, **sent: str) -> SignedRequest:
    """A PUT of a URL as botocore makes it, with the headers that it demands."""
    session = botocore.session.Session()
    session.set_credentials(
        principal.access_key_id, principal.secret_access_key, principal.session_token
    )
    client = session.create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:4780",
        config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}),
    )
    bound = {"ContentLength": 4, "ChecksumSHA256": BOUND["x-amz-checksum-sha256"]}
    url = client.generate_presigned_url(
        "put_object", Params={"Bucket": "data", "Key": "uploads/a b", **bound}, ExpiresIn=600
    )
    return SignedRequest("PUT", url, {"host": "127.0.0.1:4780", **BOUND, **sent}, b"")


def check_url(request: SignedRequest, **later: float) -> Principal:
    keys = {p.access_key_id: p for p in (KEYS, ROLE)}
    now = datetime.now(timezone.utc) + timedelta(**later)
    return verify_presigned(request, keys.get, now=now)


@pytest.mark.parametrize("principal", [KEYS, ROLE])
def test_a_presigned_url_is_accepted_until_it_expires(principal: Principal) -> None:
    request = presigned(principal)
    assert is_presigned(request.url)
    assert check_url(request) is principal
    assert check_url(request, minutes=9) is principal
    with pytest.raises(Rejected, match="Request has expired"):
        check_url(request, minutes=11)


@pytest.mark.parametrize(
    ("false_request", "message"),
    [
        (lambda: presigned(**{"content-length": "5"}), "does not match"),
        (lambda: presigned(**{"x-amz-checksum-sha256": "AAAA"}), "does not match"),
        (lambda: presigned(**{"x-amz-acl": "public-read"}), "were not signed"),
        (lambda: changed(presigned(), headers={"host": "127.0.0.1:4780"}), "does not match"),
        (lambda: changed(presigned(), method="GET"), "does not match"),
        (
            lambda: changed(presigned(), url=presigned().url.replace("uploads", "exports")),
            "does not match",
        ),
        (
            lambda: changed(
                presigned(), url=presigned().url.replace("Expires=600", "Expires=6000")
            ),
            "does not match",
        ),
        (
            lambda: changed(
                presigned(ROLE), url=presigned(ROLE).url.replace("Token=token", "Token=x")
            ),
            "does not exist",
        ),
    ],
)
def test_a_request_that_is_not_the_one_of_its_url_is_refused(
    false_request: Callable[[], SignedRequest], message: str
) -> None:
    with pytest.raises(Rejected, match=message):
        check_url(false_request())
