"""/v1/whoami and /v1/audit, and the two verbs by which things come to be others', too."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.people.read_audit import read_audit
from trainyard.domain import audit
from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.http import giving, giving_many
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.filters import in_utc, with_zone
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.people_views import AuditEntryView, AuditPage, WhoamiView
from trainyard.http.reasons import Reason
from trainyard.http.receivers import TAGS
from trainyard.ports import Ports

__all__ = ["Reason", "routes"]
_DAYS = 7
Since = Annotated[
    str | None,
    Query(
        max_length=40,
        description="not older than this RFC 3339 time; default: 7 days ago, to the hour",
    ),
]
Who = Annotated[
    str | None,
    Query(max_length=300, description="name or ARN of a person, or 'trainyard' for itself"),
]
What = Annotated[
    str | None, Query(max_length=40, description="such as run.cancel, or all of a kind: run")
]
Subject = Annotated[
    str | None, Query(max_length=200, description="kind/name, such as cluster/shared-cpu")
]


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of people; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    giving.add_to(router, ports)
    giving_many.add_to(router, ports)
    _whoami(router, ports)
    _audit(router, ports)
    return router


def _whoami(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/whoami",
        tags=TAGS,
        operation_id="whoami",
        summary="Who signed this request, and their role in this stack",
        responses=documented(200, WhoamiView, "The signer"),
    )
    def whoami() -> Response[str]:
        asker, roles = asking(router, ports), ports().config.roles
        view = WhoamiView.made(
            person=asker.person, role=asker.role, everybody_is_admin="*" in roles.admins
        )
        return answer(view)


def _audit(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/audit",
        tags=TAGS,
        operation_id="listAudit",
        summary="Who changed what, when, from where and why; newest first",
        responses=documented(200, AuditPage, "One page of the list, perhaps with none", 403),
    )
    def list_audit(
        limit: Limit = DEFAULT_LIMIT,
        next_token: NextToken = None,
        since: Since = None,
        who: Who = None,
        what: What = None,
        subject: Subject = None,
    ) -> Response[str]:
        query = audit.AuditQuery(_since(ports(), since), who, what, subject)
        page = read_audit(ports(), asking(router, ports), query, limit=limit, token=next_token)
        entries = [AuditEntryView.of(entry, **_where(entry, place)) for entry, place in page.items]
        return answer(AuditPage.made(entries=entries, next_token=page.next_token))


def _where(entry: audit.AuditEntry, seen: bool) -> dict[str, str | None]:
    if seen:
        return {"source_ip": entry.source_ip, "user_agent": entry.user_agent}
    return {"source_ip": None, "user_agent": None}


def _since(ports: Ports, given: str | None) -> datetime:
    if given is None:  # to the hour, so that it is the same from page to page
        now = ports.clock.now().replace(minute=0, second=0, microsecond=0)
        return now - timedelta(days=_DAYS)
    try:
        return in_utc(with_zone(given))
    except ValueError as mistake:
        words = str(mistake)
        raise InvalidRequest(f"since: {words}", errors=[FieldError("since", words)]) from None
