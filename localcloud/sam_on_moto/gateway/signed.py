"""Refuses calls to services that are signed with a wrong secret, or by a clock that is far off.

It looks before moto reads the request: later the bytes that were signed are gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any
from xml.sax.saxutils import escape

from sam_on_moto.iam.access import Principal
from sam_on_moto.iam.service_signatures import S3, WronglySigned, check
from sam_on_moto.iam.signatures import AUTHORIZATION, SignedRequest
from sam_on_moto.wire.messages import Response


def refusal(environ: dict[str, Any], keys: Callable[[str], Principal | None]) -> Response | None:
    """The answer to a call that is wrongly signed; None if it may go on.

    A key that was not issued here is refused where the request is served. The body is read and put
    back; one that goes to S3 is not read, for it may be large, and the header with its hash is what
    was signed.
    """
    found = AUTHORIZATION.fullmatch(environ.get("HTTP_AUTHORIZATION", ""))
    principal = keys(found["key"]) if found else None
    if found is None or principal is None:
        return None
    service = found["service"]
    body = b""
    if service != S3:
        body = environ["wsgi.input"].read()
        environ["wsgi.input"].seek(0)
    headers = headers_of(environ)
    url = f"http://{headers.get('host', '')}{environ['RAW_URI']}"
    request = SignedRequest(environ["REQUEST_METHOD"], url, headers, body)
    try:
        check(request, principal, datetime.now(timezone.utc))
    except WronglySigned as wrong:
        return _refused(service, wrong, in_json_rpc="x-amz-target" in headers)
    return None


def headers_of(environ: dict[str, Any]) -> dict[str, str]:
    """What was sent, by names in lower case."""
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    return headers


def _refused(service: str, wrong: WronglySigned, *, in_json_rpc: bool) -> Response:
    code, message = wrong.code, str(wrong)
    if code == "InvalidSignatureException":
        headers = [("Content-Type", "application/x-amz-json-1.1"), ("X-Amzn-ErrorType", code)]
        body = json.dumps({"__type": code, "message": message}).encode()
        return Response(400 if in_json_rpc else 403, headers, body)
    error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    text = (
        f"<Error>{error}</Error>"
        if service == S3
        else f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error></ErrorResponse>"
    )
    return Response(403, [("Content-Type", "application/xml")], text.encode())
