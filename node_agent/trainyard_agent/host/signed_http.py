"""Signed requests to AWS over the standard library.

botocore's clients would cost the agent 20 MB that it does not need.
"""

from __future__ import annotations

import http.client
import os
import ssl
import threading
from collections.abc import Mapping
from urllib.parse import SplitResult, quote, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from trainyard_agent.host.http_errors import CannotWrite, Refused, Unreachable, words
from trainyard_agent.host.http_streams import Answer, Readable, Writable, receive

TIMEOUT_SECONDS = 20.0
#: Services whose host is not called as their signature is.
_HOSTS = {"ecr": "api.ecr"}


def endpoint(service: str, region: str) -> str:
    """The service's URL.

    AWS_ENDPOINT_URL_<SERVICE>, AWS_ENDPOINT_URL and `endpoint_url` of ~/.aws/config win, as in
    every AWS SDK.
    """
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    override = (
        os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}")
        or os.environ.get("AWS_ENDPOINT_URL")
        or Session().get_scoped_config().get("endpoint_url")
    )
    host = _HOSTS.get(service, service)
    return (override or f"https://{host}.{region}.{suffix}").rstrip("/")


class _Signer(S3SigV4Auth):  # type: ignore[misc]
    """Signs the hash that the caller computed, so that a body is never read twice.

    S3's signer also keeps paths as they are.
    """

    def _modify_request_before_signing(self, request: AWSRequest) -> None:
        given = request.headers["X-Amz-Content-SHA256"]
        super()._modify_request_before_signing(request)
        del request.headers["X-Amz-Content-SHA256"]
        request.headers["X-Amz-Content-SHA256"] = given


class SignedHttp:
    """Requests to one service. Thread safe; connections are kept per thread."""

    def __init__(self, service: str, region: str) -> None:
        self.service, self.region = service, region
        self.endpoint = endpoint(service, region)
        self._credentials = Session().get_credentials()
        self._local = threading.local()

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        payload_sha256: str,
        body: bytes | Readable = b"",
        query: str = "",
        host: str | None = None,
        into: Writable | None = None,
    ) -> Answer:
        """One signed request; a streamed body is sent in blocks.

        What comes with status 200 or 206 is written `into` that file instead of held in memory.
        Raises Unreachable or Refused, and OSError where the file cannot be written.
        """
        origin = f"https://{host}" if host else self.endpoint
        target = urlsplit(f"{origin}{quote(path, safe='/~')}{'?' + query if query else ''}")
        signed = self._sign(
            method, target.geturl(), {**headers, "X-Amz-Content-SHA256": payload_sha256}
        )
        try:
            answer = self._send(method, target, signed, body, into)
        except CannotWrite as error:
            self._forget()
            raise error.why from None
        except (OSError, http.client.HTTPException) as error:
            self._forget()
            raise Unreachable(f"{self.service} does not answer: {error}") from error
        return self._judge(answer)

    def _judge(self, answer: Answer) -> Answer:
        if answer.status < 300 or answer.status == 404:
            return answer
        text = answer.body[:500].decode(errors="replace")
        if (
            answer.status >= 500
            or answer.status == 429
            or "Throttl" in text
            or "SlowDown" in text
            or "ExpiredToken" in text
        ):
            raise Unreachable(f"{self.service} answered {answer.status}: {words(text)}")
        raise Refused(answer.status, words(text))

    def _sign(self, method: str, url: str, headers: dict[str, str]) -> dict[str, str]:
        try:
            self._credentials = self._credentials or Session().get_credentials()
            frozen = (
                self._credentials.get_frozen_credentials()
                if self._credentials is not None
                else None
            )
        except (
            BotoCoreError,
            RuntimeError,
        ) as error:  # the instance's metadata service is away, or still gives expired credentials
            raise Unreachable(
                f"this node's AWS credentials cannot be renewed now: {error}"
            ) from error
        if frozen is None:
            raise Unreachable("this node has no AWS credentials; is its execution role attached?")
        request = AWSRequest(method=method, url=url, headers=headers)
        _Signer(frozen, self.service, self.region).add_auth(request)
        return dict(request.headers.items())

    def _send(
        self,
        method: str,
        target: SplitResult,
        headers: Mapping[str, str],
        body: bytes | Readable,
        into: Writable | None,
    ) -> Answer:
        path = f"{target.path}?{target.query}" if target.query else target.path
        connection, fresh = self._connection(target.scheme, target.netloc)
        try:
            return self._exchange(connection, method, path, headers, body, into)
        except (OSError, http.client.HTTPException):
            self._forget()
            if fresh:
                raise
        # A kept connection that the server closed in the meantime says nothing about the server.
        return self._exchange(
            self._connection(target.scheme, target.netloc)[0], method, path, headers, body, into
        )

    @staticmethod
    def _exchange(
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | Readable,
        into: Writable | None,
    ) -> Answer:
        if not isinstance(body, bytes):
            body.seek(0)
        connection.request(method, path, body=body, headers=dict(headers))
        response = connection.getresponse()
        content = b""
        if into is not None and response.status in (200, 206):
            receive(response, into)
        else:
            content = response.read()
        return Answer(
            response.status, {name.lower(): value for name, value in response.getheaders()}, content
        )

    def _connection(self, scheme: str, netloc: str) -> tuple[http.client.HTTPConnection, bool]:
        """A connection and whether it is a new one."""
        kept: dict[str, http.client.HTTPConnection] = self._local.__dict__.setdefault("kept", {})
        if netloc in kept:
            return kept[netloc], False
        if scheme == "https":
            kept[netloc] = http.client.HTTPSConnection(
                netloc, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
            )
        else:
            kept[netloc] = http.client.HTTPConnection(netloc, timeout=TIMEOUT_SECONDS)
        return kept[netloc], True

    def _forget(self) -> None:
        for connection in self._local.__dict__.pop("kept", {}).values():
            connection.close()
