"""POST /v1/clusters: create a cluster, or see what it would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.dry_run import dry_run_cluster
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.cluster_verbs import TAGS, accepted
from trainyard.http.cluster_views import ClusterView
from trainyard.http.dry_runs import DryRun
from trainyard.http.identifiers import IdempotencyKey
from trainyard.http.plan_views import PlanView
from trainyard.ports import Ports
from trainyard_contracts.cluster_specs import ClusterSpec

_CREATED = documented(
    202, ClusterView, "Accepted; follow the cluster", 403, 409, 413, 415, 422, also={200: PlanView}
)


def creation(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/clusters",
        tags=TAGS,
        operation_id="createCluster",
        summary="Create a cluster, or with dryrun=true see exactly what it would be",
        responses=_CREATED,
    )
    def create(
        spec: Annotated[ClusterSpec, Body()],
        dryrun: DryRun = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response[str]:
        if dryrun:
            return answer(PlanView.of_plan(dry_run_cluster(ports(), spec)))
        asker = asking(router, ports)
        return accepted(asker.create_cluster(spec, idempotency_key=idempotency_key))
