"""/v1/clusters/{name}/nodes: look at a cluster's nodes, replace and reboot one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.clusters.list_nodes import list_node_page
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.identifiers import ClusterPath, InstancePath, cluster_name, instance_id
from trainyard.http.node_views import BatchView, NodeList
from trainyard.http.paging import NextToken, WholeNumber
from trainyard.http.people import Reason
from trainyard.outside.seen_clusters import BatchResult
from trainyard.ports import Ports

TAGS = ["nodes"]
NodeLimit = Annotated[WholeNumber, Query(ge=1, le=1000, description="nodes of one page")]
#: As many as a page may have: the backend is asked for all nodes at each page, and clients of an
#: older version ask for one page only.
DEFAULT_NODES = 1000
_ACTION = documented(202, BatchView, "What the backend accepted", 403, 404, 409, 429)


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of nodes; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _actions(router, ports)
    _listing(router, ports)
    return router


def _actions(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/clusters/<clusterName>/nodes/<instanceId>:replace",
        tags=TAGS,
        operation_id="replaceNode",
        responses=_ACTION,
        summary="Replace a node by a new instance",
    )
    def replace(cluster: ClusterPath, instance: InstancePath, reason: Reason = "") -> Response[str]:
        asker, node = asking(router, ports), instance_id(instance)
        result = asker.replace_node(cluster_name(cluster), node, reason=reason)
        return _accepted(result, cluster)

    @router.post(
        "/v1/clusters/<clusterName>/nodes/<instanceId>:reboot",
        tags=TAGS,
        operation_id="rebootNode",
        responses=_ACTION,
        summary="Reboot a node",
    )
    def reboot(cluster: ClusterPath, instance: InstancePath, reason: Reason = "") -> Response[str]:
        asker, node = asking(router, ports), instance_id(instance)
        result = asker.reboot_node(cluster_name(cluster), node, reason=reason)
        return _accepted(result, cluster)


def _listing(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/clusters/<clusterName>/nodes",
        tags=TAGS,
        operation_id="listNodes",
        summary="Nodes as the backend, Slurm and their newest sample show them",
        responses=documented(200, NodeList, "One page of nodes", 404, 429),
    )
    def listing(
        cluster: ClusterPath, limit: NodeLimit = DEFAULT_NODES, next_token: NextToken = None
    ) -> Response[str]:
        page = list_node_page(ports(), cluster_name(cluster), limit=limit, token=next_token)
        return answer(NodeList.of_nodes(page.items, page.next_token))


def _accepted(result: BatchResult, cluster: str) -> Response[str]:
    view = BatchView(successful=result.successful, failed=result.failed)
    return answer(view, status=202, location=f"/v1/clusters/{cluster}/nodes")
