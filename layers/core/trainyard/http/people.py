"""/v1/whoami and /v1/audit, and the two verbs by which things come to be others', too."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import Field

from trainyard.app.filesystems.show_filesystem import shown
from trainyard.app.people.ownership import load
from trainyard.app.people.read_audit import read_audit
from trainyard.app.runs.list_outputs import uri
from trainyard.domain import audit
from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.people import Role
from trainyard.domain.records import Cluster, Run
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.cluster_views import ClusterView
from trainyard.http.filesystem_views import FilesystemView
from trainyard.http.filters import in_utc, with_zone
from trainyard.http.identifiers import (
    ClusterPath,
    FilesystemPath,
    RunPath,
    cluster_name,
    filesystem_name,
    run_to_change,
)
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.run_views import RunView
from trainyard.http.views import View
from trainyard.ports import Ports
from trainyard_contracts.base import Strict
from trainyard_contracts.people import Person, named

TAGS = ["people"]
_DAYS = 7
Reason = Annotated[
    str, Query(max_length=500, description="why; the timeline or the audit list keeps it")
]


class WhoamiView(View):
    """The signer of this request."""

    person: Person
    role: Role | None = Field(description="null: none, so that every other call is refused")
    everybody_is_admin: bool = Field(
        description="the stack's parameter Admins is *: whom IAM lets in may do everything"
    )


class AuditEntryView(View):
    """One change that was asked for, or that Trainyard itself decided."""

    id: str
    at: datetime
    who: Person | None = Field(description="null: Trainyard itself")
    what: audit.Act
    subject: str = Field(description="kind/name, such as cluster/shared-cpu")
    reason: str
    source_ip: str | None = Field(description="null: shown to admins and to the person alone")
    user_agent: str | None = Field(
        description="the caller's own word for its program; null as sourceIp"
    )
    outcome: Literal["asked", "done", "refused", "failed", "decided"] = Field(
        description="asked: whether it was done is not known; decided: by Trainyard"
    )
    detail: str = Field(description="why it was refused or failed")


class AuditPage(View):
    """One page of changes, newest first."""

    entries: list[AuditEntryView]
    next_token: str | None = None


class ShareSpec(Strict):
    """With whom a thing is shared; it replaces what was there."""

    shared_with: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(
        max_length=20,
        description="ARNs of users, roles or sessions; * is any text without / and :; [] = nobody",
    )


class TransferSpec(Strict):
    """To whom a thing is given."""

    to: str | None = Field(
        default=None,
        max_length=300,
        description="ARN of a user, a role or a role's session; null: who asks",
    )


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of people; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _of_runs(router, ports)
    _of_clusters(router, ports)
    _of_filesystems(router, ports)
    _readings(router, ports)
    return router


_SHARE = "Let others change it, too: those whose ARN matches"
_TRANSFER = "Give it to another owner; without `to`, take it"


def _run(ports: Ports, run: Run) -> Response[str]:
    return answer(RunView.of(run, uri=uri(ports, run)))


def _of_runs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, RunView, "The run", 403, 404, 409)

    @router.post(
        "/v1/runs/<runId>:share",
        tags=TAGS,
        operation_id="shareRun",
        summary=_SHARE,
        responses=responses,
    )
    def share(
        run: RunPath, spec: Annotated[ShareSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Run = load(ports(), "run", run_to_change(ports(), run))
        return _run(ports(), asking(router, ports).share(found, _known(spec), reason=reason))

    @router.post(
        "/v1/runs/<runId>:transfer",
        tags=TAGS,
        operation_id="transferRun",
        summary=_TRANSFER,
        responses=responses,
    )
    def transfer(
        run: RunPath, spec: Annotated[TransferSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Run = load(ports(), "run", run_to_change(ports(), run))
        return _run(ports(), asking(router, ports).transfer(found, _to(spec), reason=reason))


def _of_clusters(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, ClusterView, "The cluster", 403, 404, 409)

    @router.post(
        "/v1/clusters/<clusterName>:share",
        tags=TAGS,
        operation_id="shareCluster",
        summary=_SHARE,
        responses=responses,
    )
    def share(
        cluster: ClusterPath, spec: Annotated[ShareSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Cluster = load(ports(), "cluster", cluster_name(cluster))
        changed = asking(router, ports).share(found, _known(spec), reason=reason)
        return answer(ClusterView.of(changed))

    @router.post(
        "/v1/clusters/<clusterName>:transfer",
        tags=TAGS,
        operation_id="transferCluster",
        summary=_TRANSFER,
        responses=responses,
    )
    def transfer(
        cluster: ClusterPath, spec: Annotated[TransferSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Cluster = load(ports(), "cluster", cluster_name(cluster))
        changed = asking(router, ports).transfer(found, _to(spec), reason=reason)
        return answer(ClusterView.of(changed))


def _of_filesystems(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, FilesystemView, "The filesystem", 403, 404, 409)

    @router.post(
        "/v1/filesystems/<filesystemName>:share",
        tags=TAGS,
        operation_id="shareFilesystem",
        summary=_SHARE,
        responses=responses,
    )
    def share(
        filesystem: FilesystemPath, spec: Annotated[ShareSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Filesystem = load(ports(), "filesystem", filesystem_name(filesystem))
        changed = asking(router, ports).share(found, _known(spec), reason=reason)
        return answer(FilesystemView.of_shown(shown(ports(), changed)))

    @router.post(
        "/v1/filesystems/<filesystemName>:transfer",
        tags=TAGS,
        operation_id="transferFilesystem",
        summary=_TRANSFER,
        responses=responses,
    )
    def transfer(
        filesystem: FilesystemPath, spec: Annotated[TransferSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Filesystem = load(ports(), "filesystem", filesystem_name(filesystem))
        changed = asking(router, ports).transfer(found, _to(spec), reason=reason)
        return answer(FilesystemView.of_shown(shown(ports(), changed)))


def _readings(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
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
        since: Annotated[
            str | None,
            Query(
                max_length=40,
                description="not older than this RFC 3339 time; default: 7 days ago, to the hour",
            ),
        ] = None,
        who: Annotated[
            str | None,
            Query(max_length=300, description="name or ARN of a person, or 'trainyard' for itself"),
        ] = None,
        what: Annotated[
            str | None,
            Query(max_length=40, description="such as run.cancel, or all of a kind: run"),
        ] = None,
        subject: Annotated[
            str | None,
            Query(max_length=200, description="kind/name, such as cluster/shared-cpu"),
        ] = None,
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


def _known(spec: ShareSpec) -> list[str]:
    """The patterns. Raises InvalidRequest for one that could be no ARN."""
    for at, pattern in enumerate(spec.shared_with):
        _check(f"sharedWith.{at}", pattern)
    return list(spec.shared_with)


def _to(spec: TransferSpec) -> Person | None:
    return None if spec.to is None else _check("to", spec.to)


def _check(field: str, arn: str) -> Person:
    try:
        return named(arn)
    except ValueError as mistake:
        raise InvalidRequest(
            f"{field}: {mistake}", errors=[FieldError(field, str(mistake))]
        ) from None
