"""/v1/clusters: all routes of clusters; to look at one and to label it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.cluster_adoption import adoption
from trainyard.http.cluster_creation import creation
from trainyard.http.cluster_life import change, deletion
from trainyard.http.cluster_list import listing
from trainyard.http.cluster_verbs import TAGS, verbs
from trainyard.http.cluster_views import ClusterView
from trainyard.http.etags import ETAG_HEADER, IfMatch, IfNoneMatch, fresh, version_of
from trainyard.http.identifiers import ClusterPath
from trainyard.http.identifiers import cluster_name as known
from trainyard.ports import Ports
from trainyard_contracts.sharing import ClusterChanges


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of clusters; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    adoption(router, ports)
    verbs(router, ports)
    creation(router, ports)
    listing(router, ports)
    _one(router, ports)
    change(router, ports)
    deletion(router, ports)
    return router


def _one(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/clusters/<clusterName>",
        tags=TAGS,
        operation_id="getCluster",
        summary="Show a cluster",
        responses=documented(
            200, ClusterView, "The cluster", 404, headers=ETAG_HEADER, unchanged=True
        ),
    )
    def show(cluster_name: ClusterPath, if_none_match: IfNoneMatch = None) -> Response[str]:
        cluster = ports().clusters.get(known(cluster_name))
        return fresh(ClusterView.of(cluster), cluster.version, if_none_match)

    @router.patch(
        "/v1/clusters/<clusterName>",
        tags=TAGS,
        operation_id="labelCluster",
        summary="Set labels of a cluster, or take them away, and its sharing; the rest stays",
        responses=documented(200, ClusterView, "The cluster", 403, 404, 409, 412, 413, 415),
    )
    def label(
        cluster_name: ClusterPath,
        changes: Annotated[ClusterChanges, Body()],
        if_match: IfMatch = None,
    ) -> Response[str]:
        name, version = known(cluster_name), version_of(if_match)
        cluster = asking(router, ports).label_cluster(
            name, changes.labels, sharing=changes.sharing, version=version
        )
        return answer(ClusterView.of(cluster))
