"""Verifies AWS Signature Version 4 for real: recomputes it from the request as it arrived."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from http.client import HTTPMessage
from urllib.parse import parse_qsl, urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sam_on_moto.iam.access import Principal

CLOCK_SKEW_SECONDS = 300
#: The longest that a presigned URL may be valid: seven days.
LONGEST_URL_SECONDS = 7 * 86400
_SIGNATURE = "X-Amz-Signature"
_BODY_HEADER = "x-amz-content-sha256"
#: The header of Signature Version 4.
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<key>[^/,\s]+)/(?P<date>\d{8})/"
    r"(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request"
    r",\s*SignedHeaders=(?P<headers>[^,\s]+),\s*Signature=(?P<signature>[0-9a-f]{64})\s*"
)


class Rejected(Exception):
    """The request is not signed as AWS demands; the message is the one API Gateway gives."""


@dataclass(frozen=True)
class SignedRequest:
    """A request as it came over the wire: `url` undecoded, header names in lower case."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


def verify(
    request: SignedRequest,
    keys: Callable[[str], Principal | None],
    *,
    region: str,
    service: str,
    now: datetime,
) -> Principal:
    """The principal who signed the request. Raises Rejected."""
    header = request.headers.get("authorization")
    if not header:
        raise Rejected("Missing Authentication Token")
    found = AUTHORIZATION.fullmatch(header)
    if not found:
        raise Rejected(
            "Authorization header requires an AWS4-HMAC-SHA256 Credential, "
            "SignedHeaders and Signature"
        )
    principal = keys(found["key"])
    if principal is None or not _token_matches(
        principal, request.headers.get("x-amz-security-token")
    ):
        raise Rejected("The security token included in the request is invalid.")
    if (found["region"], found["service"]) != (region, service):
        raise Rejected(f"Credential should be scoped to region '{region}' and service '{service}'.")
    timestamp = _fresh(request.headers.get("x-amz-date", ""), found["date"], now)
    signed = found["headers"].split(";")
    if "host" not in signed or not all(name in request.headers for name in signed):
        raise Rejected("The signed headers must include host and be present in the request.")
    expected = _signature(request, principal, signed, timestamp, (region, service))
    if not hmac.compare_digest(expected, found["signature"]):
        raise Rejected(
            "The request signature we calculated does not match the signature you provided. "
            "Check your AWS Secret Access Key and signing method. "
            "Consult the service documentation for details."
        )
    return principal


def is_presigned(url: str) -> bool:
    """Whether the URL itself carries a signature."""
    return any(name == _SIGNATURE for name, _ in parse_qsl(urlsplit(url).query))


def verify_presigned(
    request: SignedRequest,
    keys: Callable[[str], Principal | None],
    *,
    now: datetime,
) -> Principal:
    """The principal who signed the URL of a request to S3, in any region.

    The URL binds the headers that it names: each must be sent as it was signed, and no other
    header of AWS's may be. Raises Rejected.
    """
    given = dict(parse_qsl(urlsplit(request.url).query, keep_blank_values=True))
    scope = given.get("X-Amz-Credential", "").split("/")
    principal = keys(scope[0])
    if principal is None or not _token_matches(principal, given.get("X-Amz-Security-Token")):
        raise Rejected("The AWS Access Key Id you provided does not exist in our records.")
    if len(scope) != 5 or scope[3:] != ["s3", "aws4_request"]:
        raise Rejected("Error parsing the X-Amz-Credential parameter; it is not of s3")
    _not_expired(given, scope[1], now)
    signed = given.get("X-Amz-SignedHeaders", "").split(";")
    unsigned = [name for name in request.headers if name.startswith("x-amz-")]
    if set(unsigned) - set(signed):
        raise Rejected("There were headers present in the request which were not signed")
    sent = {name: request.headers[name] for name in signed if name in request.headers}
    again = AWSRequest(method=request.method, url=_unsigned(request.url), headers=sent)
    again.context["timestamp"] = given["X-Amz-Date"]
    credentials = Credentials(principal.access_key_id, principal.secret_access_key)
    signer = _UrlSigner(credentials, scope[2], frozenset(signed))
    canonical = signer.canonical_request(again)
    expected = str(signer.signature(signer.string_to_sign(again, canonical), again))
    if not hmac.compare_digest(expected, given.get(_SIGNATURE, "")):
        raise Rejected(
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method."
        )
    return principal


def _unsigned(url: str) -> str:
    parts = urlsplit(url)
    kept = [part for part in parts.query.split("&") if not part.startswith(f"{_SIGNATURE}=")]
    return parts._replace(query="&".join(kept)).geturl()


def _not_expired(given: Mapping[str, str], scope_date: str, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(given["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
        seconds = int(given["X-Amz-Expires"])
    except (KeyError, ValueError):
        raise Rejected("Query-string authentication version 4 requires its parameters.") from None
    if not given["X-Amz-Date"].startswith(scope_date) or not 0 < seconds <= LONGEST_URL_SECONDS:
        raise Rejected("X-Amz-Expires must be less than a week (in seconds) and above 0")
    since = now - signed_at.replace(tzinfo=timezone.utc)
    if since > timedelta(seconds=seconds) or since < -timedelta(seconds=CLOCK_SKEW_SECONDS):
        raise Rejected("Request has expired")


def _token_matches(principal: Principal, token: str | None) -> bool:
    return hmac.compare_digest(principal.session_token or "", token or "")


def _fresh(timestamp: str, scope_date: str, now: datetime) -> str:
    try:
        signed_at = datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise Rejected(
            "Date must be in ISO-8601 'basic format'. Got it from the header x-amz-date."
        ) from None
    if not timestamp.startswith(scope_date):
        raise Rejected(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from "
            f"HTTP: '{scope_date}' != '{timestamp[:8]}'."
        )
    if abs((now - signed_at).total_seconds()) > CLOCK_SKEW_SECONDS:
        current = now.strftime("%Y%m%dT%H%M%SZ")
        raise Rejected(
            f"Signature expired: {timestamp} is now more than {CLOCK_SKEW_SECONDS // 60} min. "
            f"away from {current}"
        )
    return timestamp


def _signature(
    request: SignedRequest,
    principal: Principal,
    signed: list[str],
    timestamp: str,
    scope: tuple[str, str],
) -> str:
    """botocore's own canonical request over the headers that were signed.

    The body's hash is always ours, never the caller's word.
    """
    declared = request.headers.get(_BODY_HEADER)
    actual = hashlib.sha256(request.body).hexdigest()
    if declared not in (None, actual):
        raise Rejected("The request body does not match the X-Amz-Content-SHA256 header.")
    return recomputed(request, principal, signed, timestamp, scope, actual)


def recomputed(
    request: SignedRequest,
    principal: Principal,
    signed: Sequence[str],
    timestamp: str,
    scope: tuple[str, str],
    body_sha256: str,
) -> str:
    """The signature that the principal's secret gives; `scope` is (region, service)."""
    headers = {name: request.headers.get(name, "") for name in signed if name != _BODY_HEADER}
    again = AWSRequest(
        method=request.method,
        url=request.url,
        headers={**headers, _BODY_HEADER: body_sha256},
        data=request.body,
    )
    again.context["timestamp"] = timestamp
    region, service = scope
    credentials = Credentials(principal.access_key_id, principal.secret_access_key)
    kind = _S3Signer if service == "s3" else _Signer
    signer = kind(credentials, service, region, frozenset(signed))
    canonical = signer.canonical_request(again)
    return str(signer.signature(signer.string_to_sign(again, canonical), again))


class _ChosenHeaders:
    """Signs the headers that the caller chose to sign, no more and no less."""

    def __init__(
        self, credentials: Credentials, service: str, region: str, signed: frozenset[str]
    ) -> None:
        super().__init__(credentials, service, region)  # type: ignore[call-arg]
        self._signed = signed

    def headers_to_sign(self, request: AWSRequest) -> HTTPMessage:
        chosen = HTTPMessage()
        for name, value in request.headers.items():
            if name.lower() in self._signed:
                chosen[name.lower()] = value
        return chosen


class _Signer(_ChosenHeaders, SigV4Auth):  # type: ignore[misc]
    """Of all services but S3."""


class _S3Signer(_ChosenHeaders, S3SigV4Auth):  # type: ignore[misc]
    """S3 signs its paths as they are sent."""


class _UrlSigner(S3SigV4QueryAuth):  # type: ignore[misc]
    """The signature of a URL over the headers that it names."""

    def __init__(self, credentials: Credentials, region: str, signed: frozenset[str]) -> None:
        super().__init__(credentials, "s3", region)
        self._signed = signed

    def headers_to_sign(self, request: AWSRequest) -> HTTPMessage:
        chosen = HTTPMessage()
        for name in sorted(self._signed):
            chosen[name] = request.headers.get(name, "")
        return chosen
