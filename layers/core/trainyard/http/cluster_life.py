"""Give a cluster another spec, delete it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.dry_run import dry_run_update
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.cluster_verbs import TAGS, accepted, meant
from trainyard.http.cluster_views import ClusterView
from trainyard.http.dry_runs import DryRun
from trainyard.http.etags import IfMatch
from trainyard.http.identifiers import ClusterPath
from trainyard.http.people import Reason
from trainyard.http.plan_views import PlanView
from trainyard.ports import Ports
from trainyard_contracts.cluster_specs import ClusterSpec

_UPDATED = documented(
    202,
    ClusterView,
    "Accepted; follow the cluster's change",
    403,
    404,
    409,
    412,
    413,
    415,
    422,
    also={200: PlanView},
)
Force = Annotated[
    bool,
    Query(
        description="give up people's jobs on it, and what was not exported; never an active run"
    ),
]


def change(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.put(
        "/v1/clusters/<clusterName>",
        tags=TAGS,
        operation_id="updateCluster",
        summary="Give a cluster another spec, or with dryrun=true see what that takes",
        responses=_UPDATED,
    )
    def update(
        cluster_name: ClusterPath,
        spec: Annotated[ClusterSpec, Body()],
        dryrun: DryRun = False,
        if_match: IfMatch = None,
    ) -> Response[str]:
        name = meant(ports(), cluster_name, if_match)
        if dryrun:
            return answer(PlanView.of_plan(dry_run_update(ports(), name, spec)))
        return accepted(asking(router, ports).update_cluster(name, spec))


def deletion(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.delete(
        "/v1/clusters/<clusterName>",
        tags=TAGS,
        operation_id="deleteCluster",
        summary="Delete a cluster that nobody uses",
        responses=documented(202, ClusterView, "Accepted; follow the cluster", 403, 404, 409, 412),
    )
    def delete(
        cluster_name: ClusterPath,
        force: Force = False,
        reason: Reason = "",
        if_match: IfMatch = None,
    ) -> Response[str]:
        name = meant(ports(), cluster_name, if_match)
        return accepted(asking(router, ports).delete_cluster(name, force=force, reason=reason))
