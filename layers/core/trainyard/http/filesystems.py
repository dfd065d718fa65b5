"""/v1/filesystems: filesystems that several clusters share and that outlive them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.filesystems.create_filesystem import plan_filesystem
from trainyard.app.filesystems.show_filesystem import show_filesystem, shown
from trainyard.domain.filesystem_records import Filesystem
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.dry_runs import DryRun
from trainyard.http.filesystem_views import (
    FilesystemPage,
    FilesystemPlanView,
    FilesystemSummary,
    FilesystemView,
)
from trainyard.http.filters import (
    CreatedBy,
    FilesystemStatuses,
    Mine,
    NameAsked,
    Ordered,
    Since,
    Until,
    wanted,
)
from trainyard.http.identifiers import FilesystemPath, IdempotencyKey
from trainyard.http.identifiers import filesystem_name as known
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.ports import Ports
from trainyard_contracts.filesystems import FilesystemSpec

TAGS = ["filesystems"]
_CREATED = documented(
    202,
    FilesystemView,
    "Accepted; follow the filesystem",
    403,
    409,
    413,
    415,
    also={200: FilesystemPlanView},
)
_CHANGED = documented(202, FilesystemView, "Accepted; follow the filesystem", 403, 404, 409)
Discard = Annotated[
    bool,
    Query(description="give up what it holds; needs a reason, which the timeline keeps"),
]
Reason = Annotated[
    str | None,
    Query(min_length=1, max_length=500, description="with discard=true: why it may be lost"),
]


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of filesystems; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _verbs(router, ports)
    _creation(router, ports)
    _listing(router, ports)
    _one(router, ports)
    return router


def _accepted(ports: Ports, filesystem: Filesystem) -> Response[str]:
    view = FilesystemView.of_shown(shown(ports, filesystem))
    return answer(view, status=202, location=f"/v1/filesystems/{filesystem.name}")


def _verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/filesystems/<filesystemName>:export",
        tags=TAGS,
        operation_id="exportFilesystem",
        summary="Export what changed to its repository; one that runs is the answer",
        responses=_CHANGED,
    )
    def export(filesystem_name: FilesystemPath) -> Response[str]:
        exported = asking(router, ports).export_filesystem(known(filesystem_name))
        return _accepted(ports(), exported)


def _creation(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/filesystems",
        tags=TAGS,
        operation_id="createFilesystem",
        summary="Create a filesystem, or with dryrun=true see exactly what it would be",
        responses=_CREATED,
    )
    def create(
        spec: Annotated[FilesystemSpec, Body()],
        dryrun: DryRun = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response[str]:
        if dryrun:
            return answer(FilesystemPlanView.of_plan(plan_filesystem(ports(), spec)))
        made = asking(router, ports).create_filesystem(spec, idempotency_key=idempotency_key)
        return _accepted(ports(), made)


def _listing(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/filesystems",
        tags=TAGS,
        operation_id="listFilesystems",
        summary="List filesystems, newest first, as they are found by status, name and time",
        responses=documented(200, FilesystemPage, "One page of filesystems"),
    )
    def listing(
        limit: Limit = DEFAULT_LIMIT,
        next_token: NextToken = None,
        status: FilesystemStatuses = None,
        name: NameAsked = None,
        since: Since = None,
        until: Until = None,
        mine: Mine = False,
        created_by: CreatedBy = None,
        order: Ordered = "newest",
    ) -> Response[str]:
        owner = asking(router, ports).person if mine else None
        asked = wanted(
            "",
            owner=owner,
            created_by=created_by,
            statuses=status,
            name=name,
            since=since,
            until=until,
            order=order,
        )
        page = ports().filesystems.list(limit=limit, token=next_token, wanted=asked)
        found = [FilesystemSummary.of_record(one) for one in page.items]
        return answer(FilesystemPage.made(filesystems=found, next_token=page.next_token))


def _one(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/filesystems/<filesystemName>",
        tags=TAGS,
        operation_id="getFilesystem",
        summary="Show a filesystem, who uses it, and its newest export",
        responses=documented(200, FilesystemView, "The filesystem", 404),
    )
    def show(filesystem_name: FilesystemPath) -> Response[str]:
        found = show_filesystem(ports(), known(filesystem_name))
        return answer(FilesystemView.of_shown(found))

    @router.delete(
        "/v1/filesystems/<filesystemName>",
        tags=TAGS,
        operation_id="deleteFilesystem",
        summary="Delete a filesystem that nobody uses; what it holds is exported first",
        responses=_CHANGED,
    )
    def delete(
        filesystem_name: FilesystemPath, discard: Discard = False, reason: Reason = None
    ) -> Response[str]:
        asker = asking(router, ports)
        gone = asker.delete_filesystem(known(filesystem_name), discard=discard, reason=reason)
        return _accepted(ports(), gone)
