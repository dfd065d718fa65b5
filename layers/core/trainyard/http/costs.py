"""/v1/costs, and what one run or one cluster has cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.cluster_costs import cost_of_cluster
from trainyard.app.runs.cost_totals import totals
from trainyard.app.runs.run_costs import costs_of
from trainyard.http.answers import answer, documented
from trainyard.http.cluster_cost_views import ClusterCostView
from trainyard.http.cost_totals import CostTotal, CostTotals
from trainyard.http.cost_views import RunCostView
from trainyard.http.filters import Label, Since, Until, wanted
from trainyard.http.identifiers import ClusterPath, RunPath
from trainyard.http.identifiers import cluster_name as known_cluster
from trainyard.http.identifiers import run_id as known_run
from trainyard.ports import Ports

TAGS = ["costs"]
SumsBy = Annotated[str, Query(max_length=200, description="owner, cluster, run, or label:KEY")]


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _of_one(router, ports)
    _of_all(router, ports)
    return router


def _of_one(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs/<runId>/cost",
        tags=TAGS,
        operation_id="getRunCost",
        summary="What a run has cost so far, and what its nodes did for it",
        responses=documented(200, RunCostView, "The cost", 404),
    )
    def of_run(run_id: RunPath) -> Response[str]:
        return answer(RunCostView.of_costs(costs_of(ports(), known_run(ports(), run_id))))

    @router.get(
        "/v1/clusters/<clusterName>/cost",
        tags=TAGS,
        operation_id="getClusterCost",
        summary="What a cluster has cost so far, by run, and idle",
        responses=documented(200, ClusterCostView, "The cost", 404),
    )
    def of_cluster(cluster_name: ClusterPath) -> Response[str]:
        cluster = ports().clusters.get(known_cluster(cluster_name))
        return answer(ClusterCostView.of_cost(cluster.name, cost_of_cluster(ports(), cluster)))


def _of_all(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/costs",
        tags=TAGS,
        operation_id="listCosts",
        summary="What runs cost, added up by owner, label, cluster or run",
        responses=documented(200, CostTotals, "The sums, the dearest first"),
    )
    def of_all(
        by: SumsBy = "owner",
        label: Label = None,  # as it was sent: see filters.label_texts
        since: Since = None,
        until: Until = None,
    ) -> Response[str]:
        asked = wanted(router.current_event.raw_query_string, since=since, until=until)
        found, left_out = totals(ports(), by, asked)
        return answer(
            CostTotals.made(
                by=by,
                at=ports().clock.now(),
                totals=[CostTotal.of_total(one) for one in found],
                left_out=left_out,
            )
        )
