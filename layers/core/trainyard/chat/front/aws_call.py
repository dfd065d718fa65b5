"""One signed call of AWS with the standard library alone: botocore takes too long to load here.

Slack waits 3 seconds for the answer to a command, the start of a cold function included.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

#: Of each wait: a call waits for its connection and for its answer, and a cold request makes two.
TIMEOUT_SECONDS = 0.7
_CONTENT_TYPE = "application/x-amz-json-1.1"
_SIGNED = ("content-type", "host", "x-amz-date", "x-amz-security-token", "x-amz-target")


class CallFailed(Exception):
    """AWS refused the call, or did not answer in time."""


class AwsCalls:
    """Calls under the function's role, whose keys Lambda gives in the environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def call(
        self, service: str, target: str, request: Mapping[str, Any], now: datetime
    ) -> dict[str, Any]:
        """The answer of one operation, such as 'secretsmanager.GetSecretValue'.

        Raises CallFailed.
        """
        url = urlsplit(self._url(service))
        body = json.dumps(request).encode()
        headers = signed(self._environ, service, target, url.netloc, body, now)
        secure = url.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(url.netloc, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("POST", "/", body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise CallFailed(f"{target}: {type(error).__name__}: {error}") from error
        finally:
            connection.close()
        return _read(target, answer.status, content)

    def _url(self, service: str) -> str:
        """Of the service itself, or what AWS's SDKs take from the same variable."""
        region = self._environ["AWS_REGION"]
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return self._environ.get("AWS_ENDPOINT_URL") or f"https://{service}.{region}.{suffix}"


def _read(target: str, status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if status != 200 or not isinstance(answer, dict):
        kind = answer.get("__type", "") if isinstance(answer, dict) else ""
        raise CallFailed(f"{target}: HTTP {status} {kind}".rstrip())
    return answer


def signed(
    environ: Mapping[str, str], service: str, target: str, host: str, body: bytes, now: datetime
) -> dict[str, str]:
    """The request's headers, with a signature of version 4 over all of them."""
    region, stamp = environ["AWS_REGION"], now.strftime("%Y%m%dT%H%M%SZ")
    headers = {
        "content-type": _CONTENT_TYPE,
        "host": host,
        "x-amz-date": stamp,
        "x-amz-target": target,
    }
    if token := environ.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = token
    names = [name for name in _SIGNED if name in headers]
    lines = "".join(f"{name}:{headers[name]}\n" for name in names)
    digest = hashlib.sha256(body).hexdigest()
    canonical = f"POST\n/\n\n{lines}\n{';'.join(names)}\n{digest}"
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{environ['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (stamp[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={environ['AWS_ACCESS_KEY_ID']}/{scope}, "
        f"SignedHeaders={';'.join(names)}, "
        f"Signature={hmac.new(key, text.encode(), hashlib.sha256).hexdigest()}"
    )
    return headers
