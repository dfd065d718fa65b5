"""Sends each request to its part: admin calls, HTTP APIs, Lambda's Invoke.

Everything else goes to moto.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable
from datetime import datetime, timezone
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from sam_on_moto.cloud import Cloud, Handler
from sam_on_moto.functions.registry import Functions, NoSuchFunction
from sam_on_moto.gateway import admin, gateway
from sam_on_moto.gateway.gateway import Gateway
from sam_on_moto.gateway.signed import headers_of, refusal
from sam_on_moto.iam.access import Denied
from sam_on_moto.iam.signatures import Rejected, SignedRequest, verify
from sam_on_moto.moto_patches.quotas import MOST_ASYNCHRONOUS_BYTES, MOST_PAYLOAD_BYTES
from sam_on_moto.wire.messages import Request, Response

_INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")
_SIGNED_FOR = re.compile(r"Credential=[^/]+/\d{8}/[^/]+/([^/]+)/aws4_request")


class Front:
    """The WSGI application of the whole local cloud."""

    def __init__(
        self,
        cloud: Cloud,
        functions: Functions,
        apis: Gateway,
        admin_calls: admin.Admin | None,
        moto: Callable[..., Iterable[bytes]],
        hosts: Container[str],
    ) -> None:
        """Without `admin_calls`, nobody can look into the cloud or end it through this front."""
        self._cloud = cloud
        self._functions = functions
        self._apis = apis
        self._admin = admin_calls
        self._moto = moto
        self._hosts = hosts

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        handler = self._handler(environ)
        if handler is None:
            return self._moto(environ, start_response)
        response = handler(_request(environ))
        phrase = (
            HTTPStatus(response.status).phrase
            if response.status in HTTPStatus._value2member_map_
            else "Unknown"
        )
        start_response(f"{response.status} {phrase}", response.headers)
        return [response.body]

    def _handler(self, environ: dict[str, Any]) -> Callable[[Request], Response] | None:
        if environ.get("HTTP_HOST", "").rsplit(":", 1)[0] not in self._hosts:
            return _foreign_host  # a web page that rebinds its name to loopback ends here
        path = environ["RAW_URI"].partition("?")[0]
        if path.startswith(self._cloud.naming.admin_prefix):
            # unsigned, so no web page may send it: browsers name the page's origin
            return (
                _foreign_host
                if "HTTP_ORIGIN" in environ or self._admin is None
                else self._admin.handle
            )
        if path.startswith(gateway.PREFIX):
            return self._apis.handle
        if _INVOKE.fullmatch(path):
            return self._invoke
        for beginning, own in self._cloud.paths.items():
            if path.startswith(beginning):
                return own
        signed = _SIGNED_FOR.search(environ.get("HTTP_AUTHORIZATION", ""))
        if signed is None:
            return None
        if (wrong := refusal(environ, self._cloud.access.principal)) is not None:
            return lambda _: wrong
        return self._service(signed[1], environ.get("HTTP_X_AMZ_TARGET", ""))

    def _service(self, name: str, target: str) -> Handler | None:
        """What answers a request that is signed for this service; None if moto does."""
        if own := self._cloud.shortcuts.get((name, target)) or self._cloud.services.get(name):
            return own
        return None if name in self._cloud.operations else self._no_such_service

    def _no_such_service(self, request: Request) -> Response:
        found = _SIGNED_FOR.search(request.headers["authorization"])
        known = sorted(self._cloud.operations)
        message = f"the local cloud has no service {found and found[1]!r}; it has {known}"
        return _error(501, "NotImplemented", message)

    def _invoke(self, request: Request) -> Response:
        """Lambda's Invoke, for people and scripts; the cloud's own parts invoke without HTTP."""
        found = _INVOKE.fullmatch(request.raw_path)
        assert found
        signed = SignedRequest(
            request.method, self._cloud.endpoint + request.raw_path, request.headers, request.body
        )
        try:
            principal = verify(
                signed,
                self._cloud.access.principal,
                region=self._cloud.region,
                service="lambda",
                now=datetime.now(timezone.utc),
            )
            function = self._functions.get(unquote(found[1]))
            self._cloud.access.require(principal, "lambda:InvokeFunction", function.config.arn)
        except (Rejected, Denied) as refused:
            return _error(403, "AccessDeniedException", str(refused))
        except NoSuchFunction as missing:
            return _error(404, "ResourceNotFoundException", str(missing))
        later = request.headers.get("x-amz-invocation-type") == "Event"
        most = MOST_ASYNCHRONOUS_BYTES if later else MOST_PAYLOAD_BYTES
        if len(request.body) > most:
            kind = "Event" if later else "RequestResponse"
            message = (
                f"{len(request.body)} byte payload is too large for the {kind} invocation type "
                f"(limit {most} bytes)"
            )
            return _error(413, "RequestTooLargeException", message)
        if later:
            self._functions.invoke_later(function.config.arn, request.body or b"{}")
            return Response(202, [], b"")
        outcome = function.pool.invoke(request.body or b"{}")
        failed = [("X-Amz-Function-Error", "Unhandled")] if outcome.failed else []
        return Response(
            200,
            [("Content-Type", "application/json"), ("X-Amz-Executed-Version", "$LATEST"), *failed],
            outcome.result,
        )


def _request(environ: dict[str, Any]) -> Request:
    path, _, query = environ["RAW_URI"].partition("?")
    return Request(
        environ["REQUEST_METHOD"], path, query, headers_of(environ), environ["wsgi.input"].read()
    )


def _foreign_host(request: Request) -> Response:
    return _error(
        421, "MisdirectedRequest", "the local cloud answers to 127.0.0.1 and localhost only"
    )


def _error(status: int, kind: str, message: str) -> Response:
    headers = [("Content-Type", "application/json"), ("X-Amzn-ErrorType", kind)]
    return Response(
        status,
        headers,
        json.dumps(
            {"__type": kind, "Type": "User", "Message": message, "message": message}
        ).encode(),
    )
