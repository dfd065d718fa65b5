"""/v1/arrays: many runs of one spec, submitted, looked at and cancelled as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.dry_run_array import dry_run_array
from trainyard.app.runs.list_members import list_members
from trainyard.domain.array_records import RunArray
from trainyard.http.answers import answer, documented
from trainyard.http.array_views import (
    ArrayMemberPage,
    ArrayMemberView,
    ArrayPage,
    ArraySummary,
    ArrayView,
)
from trainyard.http.callers import asking
from trainyard.http.dry_runs import DryRun
from trainyard.http.identifiers import ArrayPath, IdempotencyKey
from trainyard.http.identifiers import array_id as known
from trainyard.http.many_plan_views import ArrayPlanView
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.reasons import Reason
from trainyard.ports import Ports
from trainyard_contracts.arrays import ArraySpec

TAGS = ["arrays"]
_SUBMITTED = documented(
    202,
    ArrayView,
    "Accepted; follow the array",
    *(403, 404, 409, 413, 415, 422),
    also={200: ArrayPlanView},
)


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of arrays; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _verbs(router, ports)
    _collection(router, ports)
    _one(router, ports)
    return router


def _accepted(array: RunArray) -> Response[str]:
    return answer(ArrayView.of(array), status=202, location=f"/v1/arrays/{array.id}")


def _verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/arrays/<arrayId>:cancel",
        tags=TAGS,
        operation_id="cancelArray",
        responses=documented(202, ArrayView, "Accepted; follow the array", 403, 404, 409),
        summary="Cancel its active members; no other one begins",
    )
    def cancel(array_id: ArrayPath, reason: Reason = "") -> Response[str]:
        return _accepted(asking(router, ports).cancel_array(known(array_id), reason=reason))


def _collection(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/arrays",
        tags=TAGS,
        operation_id="submitArray",
        summary="Submit an array of runs, or with dryrun=true see what it would do and cost",
        responses=_SUBMITTED,
    )
    def submit(
        spec: Annotated[ArraySpec, Body()],
        dryrun: DryRun = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response[str]:
        asker = asking(router, ports)
        if dryrun:
            plan = dry_run_array(ports(), spec, by=asker.person)
            return answer(ArrayPlanView.of_array(plan, asker.why_refused(spec.run.priority)))
        return _accepted(asker.submit_array(spec, idempotency_key=idempotency_key))

    @router.get(
        "/v1/arrays",
        tags=TAGS,
        operation_id="listArrays",
        summary="List arrays, newest first",
        responses=documented(200, ArrayPage, "One page of arrays"),
    )
    def listing(limit: Limit = DEFAULT_LIMIT, next_token: NextToken = None) -> Response[str]:
        page = ports().arrays.list(limit=limit, token=next_token)
        found = [ArraySummary.of(one) for one in page.items]
        return answer(ArrayPage.made(arrays=found, next_token=page.next_token))


def _one(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/arrays/<arrayId>",
        tags=TAGS,
        operation_id="getArray",
        summary="Show an array: how many of its members are where",
        responses=documented(200, ArrayView, "The array", 404),
    )
    def show(array_id: ArrayPath) -> Response[str]:
        return answer(ArrayView.of(ports().arrays.get(known(array_id))))

    @router.get(
        "/v1/arrays/<arrayId>/members",
        tags=TAGS,
        operation_id="listArrayMembers",
        summary="Its members, with their parameters and their runs",
        responses=documented(200, ArrayMemberPage, "One page of members", 404),
    )
    def members(
        array_id: ArrayPath, limit: Limit = DEFAULT_LIMIT, next_token: NextToken = None
    ) -> Response[str]:
        page = list_members(ports(), known(array_id), limit=limit, token=next_token)
        found = [ArrayMemberView.of(one) for one in page.items]
        return answer(ArrayMemberPage.made(members=found, next_token=page.next_token))
