"""Whether a call to a service of AWS is signed with its key's secret, by a clock that is right.

Who calls, and whether they may, is asked elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime, timedelta, timezone

from sam_on_moto.iam.access import Principal
from sam_on_moto.iam.signatures import AUTHORIZATION, SignedRequest, recomputed

S3 = "s3"
#: Those that answer in XML.
IN_XML = (S3, "iam", "sns", "sts")
#: How far a clock may be off; S3 alone is more patient.
SKEW = timedelta(minutes=5)
S3_SKEW = timedelta(minutes=15)
_DOES_NOT_MATCH = (
    "The request signature we calculated does not match the signature you provided. "
    "Check your AWS Secret Access Key and signing method."
)


class WronglySigned(Exception):
    """As AWS says it; `code` is the one of the service that was called."""

    def __init__(self, service: str, message: str, *, s3_code: str = "") -> None:
        super().__init__(message)
        in_xml = "SignatureDoesNotMatch" if service in IN_XML else "InvalidSignatureException"
        self.code = s3_code or in_xml


def check(request: SignedRequest, principal: Principal, now: datetime) -> None:
    """Raises WronglySigned. The request's header is one that AUTHORIZATION matches.

    S3 signs the header x-amz-content-sha256, and the other services the body itself.
    """
    found = AUTHORIZATION.fullmatch(request.headers["authorization"])
    assert found
    service, timestamp = found["service"], request.headers.get("x-amz-date", "")
    _check_clock(service, timestamp, now)
    hashed = (
        request.headers.get("x-amz-content-sha256", "")
        if service == S3
        else hashlib.sha256(request.body).hexdigest()
    )
    scope = (found["region"], service)
    expected = recomputed(request, principal, found["headers"].split(";"), timestamp, scope, hashed)
    if not hmac.compare_digest(expected, found["signature"]):
        raise WronglySigned(service, _DOES_NOT_MATCH)


def _check_clock(service: str, timestamp: str, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise WronglySigned(service, _DOES_NOT_MATCH) from None
    off = now - signed_at
    if service == S3 and abs(off) > S3_SKEW:
        raise WronglySigned(
            service,
            "The difference between the request time and the current time is too large.",
            s3_code="RequestTimeTooSkewed",
        )
    if service != S3 and abs(off) > SKEW:
        late = off > SKEW
        edge = now - SKEW if late else now + SKEW
        raise WronglySigned(
            service,
            f"Signature {'expired' if late else 'not yet current'}: {timestamp} is now "
            f"{'earlier' if late else 'later'} than {_basic(edge)} "
            f"({_basic(now)} {'-' if late else '+'} 5 min.)",
        )


def _basic(at: datetime) -> str:
    return at.strftime("%Y%m%dT%H%M%SZ")
