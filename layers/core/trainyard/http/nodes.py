"""/v1/clusters/{name}/nodes: look at a cluster's nodes, replace and reboot one."""

from __future__ import annotations

from collections.abc import Callable

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.clusters.list_nodes import list_nodes
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.identifiers import ClusterPath, InstancePath, cluster_name, instance_id
from trainyard.http.people import Reason
from trainyard.http.views import BatchView, NodeList
from trainyard.ports import BatchResult, Ports

TAGS = ["nodes"]
_ACTION = documented(202, BatchView, "What the backend accepted", 403, 404, 409, 429)


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of nodes; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]

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

    @router.get(
        "/v1/clusters/<clusterName>/nodes",
        tags=TAGS,
        operation_id="listNodes",
        summary="Nodes as the backend, Slurm and their newest sample show them",
        responses=documented(200, NodeList, "The nodes", 404, 429),
    )
    def listing(cluster: ClusterPath) -> Response[str]:
        return answer(NodeList.of_nodes(list_nodes(ports(), cluster_name(cluster))))

    return router


def _accepted(result: BatchResult, cluster: str) -> Response[str]:
    view = BatchView(successful=result.successful, failed=result.failed)
    return answer(view, status=202, location=f"/v1/clusters/{cluster}/nodes")
