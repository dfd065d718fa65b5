"""GET /v1/runs/{id}/metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.read_metrics import read_metrics
from trainyard.http.answers import answer, documented
from trainyard.http.filters import text_asked
from trainyard.http.identifiers import RunPath
from trainyard.http.identifiers import run_id as known
from trainyard.http.metrics_views import MetricsView
from trainyard.http.paging import WholeNumber
from trainyard.http.run_verbs import TAGS
from trainyard.ports import Ports
from trainyard_contracts.curves import LONGEST_NAME, LOSS

SinceSeconds = Annotated[
    WholeNumber,
    Query(
        alias="sinceSeconds",
        ge=1,
        le=7 * 86400,
        description="how far back nodes and run go, of an ended run from its end; points "
        "are of all its time",
    ),
]
PointsOf = Annotated[
    str,
    Query(
        min_length=1,
        max_length=LONGEST_NAME,
        description="whose points are shown: a name under which the program reported "
        "numbers, such as accuracy; names lists those that there are",
    ),
]


def metrics(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs/<runId>/metrics",
        tags=TAGS,
        operation_id="getRunMetrics",
        summary="Series per node and of the training, and what the program reported",
        responses=documented(200, MetricsView, "The series", 404),
    )
    def series(
        run_id: RunPath,
        since_seconds: SinceSeconds = 3600,
        name: PointsOf = LOSS,
    ) -> Response[str]:
        asked = text_asked(router.current_event.raw_query_string, "name") or name
        found = read_metrics(
            ports(), known(ports(), run_id), since_seconds=since_seconds, name=asked
        )
        return answer(MetricsView.of_series(found))
