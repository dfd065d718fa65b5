"""GET /v1/runs: runs as they are looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.list_outputs import uri
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.filters import (
    CreatedBy,
    Label,
    Mine,
    NameAsked,
    Ordered,
    RunStatuses,
    Since,
    Until,
    wanted,
)
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.run_summaries import RunPage, RunSummary
from trainyard.http.run_verbs import TAGS
from trainyard.ports import Ports

OnCluster = Annotated[
    str | None, Query(max_length=63, description="only runs on the cluster of this name")
]


def listing(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs",
        tags=TAGS,
        operation_id="listRuns",
        summary="List runs, newest first, as they are found by label, status, name and time",
        responses=documented(200, RunPage, "One page of runs"),
    )
    def list_runs(
        limit: Limit = DEFAULT_LIMIT,
        next_token: NextToken = None,
        status: RunStatuses = None,
        label: Label = None,  # as it was sent: see filters.label_texts
        name: NameAsked = None,
        cluster: OnCluster = None,
        since: Since = None,
        until: Until = None,
        mine: Mine = False,
        created_by: CreatedBy = None,
        order: Ordered = "newest",
    ) -> Response[str]:
        asked = wanted(
            router.current_event.raw_query_string,
            owner=asking(router, ports).person if mine else None,
            created_by=created_by,
            statuses=status,
            name=name,
            cluster=cluster,
            since=since,
            until=until,
            order=order,
        )
        page = ports().runs.list(limit=limit, token=next_token, wanted=asked)
        return answer(
            RunPage.model_construct(
                runs=[RunSummary.of(run, uri=uri(ports(), run)) for run in page.items],
                next_token=page.next_token,
            )
        )
