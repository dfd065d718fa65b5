"""Who sent a request, as API Gateway says it; what the caller wrote is only why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.people.on_behalf import Caller, OnBehalf
from trainyard.domain.errors import Forbidden
from trainyard.http.reasons import reason_of
from trainyard.ports import Ports
from trainyard_contracts.people import Person, person_of

_MOST_AGENT = 200


def asking(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> OnBehalf:
    """What the request in hand may ask for. Raises Forbidden."""
    return OnBehalf(ports(), caller_of(router.current_event.raw_event))


def caller_of(event: Mapping[str, Any]) -> Caller:
    """Raises Forbidden for a request whose signer the gateway does not name, and InvalidRequest."""
    context: Mapping[str, Any] = event.get("requestContext") or {}
    http: Mapping[str, Any] = context.get("http") or {}
    return Caller(
        person=_person(context),
        request_id=str(context.get("requestId") or ""),
        at=datetime.fromtimestamp(int(context.get("timeEpoch") or 0) / 1000, tz=timezone.utc),
        source_ip=_plain(http.get("sourceIp")),
        user_agent=_plain(http.get("userAgent")),
        reason=reason_of(event),
    )


def _person(context: Mapping[str, Any]) -> Person:
    given = (context.get("authorizer") or {}).get("iam")
    try:
        return person_of(given if isinstance(given, Mapping) else {})
    except ValueError as mistake:
        raise Forbidden(
            f"API Gateway names no principal of AWS that signed this request: {mistake}.",
            next_step="Sign with credentials of AWS. If they are, each route of the API needs the "
            "authorizer AWS_IAM: deploy template.yaml as it is.",
        ) from None


def _plain(text: object) -> str:
    """The caller chooses the text of its User-Agent."""
    return "".join(char for char in str(text or "") if char.isprintable())[:_MOST_AGENT]
