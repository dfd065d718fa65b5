"""/v1/clusters:adopt, and :release: clusters that others made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.clusters.adopt_cluster import plan_adoption
from trainyard.http.adoption_views import AdoptionPlanView
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.cluster_verbs import TAGS, accepted, meant
from trainyard.http.cluster_views import ClusterView
from trainyard.http.dry_runs import DryRun
from trainyard.http.etags import IfMatch
from trainyard.http.identifiers import ClusterPath, IdempotencyKey
from trainyard.http.people import Reason
from trainyard.ports import Ports
from trainyard_contracts.adopting import AdoptSpec

_ADOPTED = documented(
    202,
    ClusterView,
    "Accepted; follow the cluster",
    403,
    404,
    409,
    413,
    415,
    422,
    also={200: AdoptionPlanView},
)
GiveUpResults = Annotated[
    bool,
    Query(
        description="leave what was not exported where it is, and give up nodes that cannot be "
        "reached; never an active run"
    ),
]


def adoption(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/clusters:adopt",
        tags=TAGS,
        operation_id="adoptCluster",
        summary="Let Trainyard run jobs on a cluster that others made, or with dryrun=true see "
        "what that takes",
        responses=_ADOPTED,
    )
    def adopt(
        spec: Annotated[AdoptSpec, Body()],
        dryrun: DryRun = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response[str]:
        if dryrun:
            return answer(AdoptionPlanView.of_plan(plan_adoption(ports(), spec)))
        asker = asking(router, ports)
        return accepted(asker.adopt_cluster(spec, idempotency_key=idempotency_key))

    @router.post(
        "/v1/clusters/<clusterName>:release",
        tags=TAGS,
        operation_id="releaseCluster",
        summary="Take Trainyard off the nodes of a cluster that others made; the cluster stays",
        responses=documented(202, ClusterView, "Accepted; follow the cluster", 403, 404, 409, 412),
    )
    def release(
        cluster_name: ClusterPath,
        force: GiveUpResults = False,
        reason: Reason = "",
        if_match: IfMatch = None,
    ) -> Response[str]:
        name = meant(ports(), cluster_name, if_match)
        asker = asking(router, ports)
        return accepted(asker.release_cluster(name, force=force, reason=reason))
