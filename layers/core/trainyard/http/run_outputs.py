"""GET /v1/runs/{id}/outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.list_outputs import list_outputs
from trainyard.http.answers import answer, documented
from trainyard.http.identifiers import RunPath
from trainyard.http.identifiers import run_id as known
from trainyard.http.output_views import OutputPage
from trainyard.http.paging import DEFAULT_LIMIT, NextToken, WholeNumber
from trainyard.http.run_verbs import TAGS
from trainyard.ports import Ports

OutputLimit = Annotated[
    WholeNumber, Query(ge=1, le=1000, description="items of one page; with URLs at most 200")
]
WithUrls = Annotated[
    bool, Query(description="with a URL for each object that anybody can read it by")
]


def outputs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs/<runId>/outputs",
        tags=TAGS,
        operation_id="listRunOutputs",
        summary="What the verified export (or the sync) holds, with hashes, and URLs to read it by",
        responses=documented(200, OutputPage, "One page of the export's objects", 404, 409),
    )
    def list_run_outputs(
        run_id: RunPath,
        limit: OutputLimit = DEFAULT_LIMIT,
        next_token: NextToken = None,
        urls: WithUrls = False,
    ) -> Response[str]:
        page = list_outputs(
            ports(), known(ports(), run_id), limit=limit, token=next_token, urls=urls
        )
        return answer(OutputPage.of_outputs(page))
