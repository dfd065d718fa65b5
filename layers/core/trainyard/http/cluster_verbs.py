"""/v1/clusters/{name}:keep, :stop and :start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.clusters.labelled import check_version
from trainyard.domain.records import Cluster
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.cluster_views import ClusterView
from trainyard.http.etags import IfMatch, version_of
from trainyard.http.identifiers import ClusterPath
from trainyard.http.identifiers import cluster_name as known
from trainyard.http.people import Reason
from trainyard.ports import Ports

TAGS = ["clusters"]
_FLEET = documented(202, ClusterView, "Accepted; follow the cluster's change", 403, 404, 409, 412)
GiveUpJobs = Annotated[bool, Query(description="end people's jobs on it, too; never an active run")]


def verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/clusters/<clusterName>:keep",
        tags=TAGS,
        operation_id="keepCluster",
        summary="Let the cluster's idle time begin anew",
        responses=documented(200, ClusterView, "The cluster", 403, 404, 409, 412),
    )
    def keep(
        cluster_name: ClusterPath, reason: Reason = "", if_match: IfMatch = None
    ) -> Response[str]:
        name = meant(ports(), cluster_name, if_match)
        return answer(ClusterView.of(asking(router, ports).keep_cluster(name, reason=reason)))

    @router.post(
        "/v1/clusters/<clusterName>:stop",
        tags=TAGS,
        operation_id="stopCluster",
        summary="Stop the cluster's fleet: its workers end, the head node and its files stay",
        responses=_FLEET,
    )
    def stop(
        cluster_name: ClusterPath,
        force: GiveUpJobs = False,
        reason: Reason = "",
        if_match: IfMatch = None,
    ) -> Response[str]:
        name = meant(ports(), cluster_name, if_match)
        return accepted(asking(router, ports).stop_fleet(name, force=force, reason=reason))

    @router.post(
        "/v1/clusters/<clusterName>:start",
        tags=TAGS,
        operation_id="startCluster",
        summary="Start the cluster's fleet, which was stopped",
        responses=_FLEET,
    )
    def start(cluster_name: ClusterPath, if_match: IfMatch = None) -> Response[str]:
        name = meant(ports(), cluster_name, if_match)
        return accepted(asking(router, ports).start_fleet(name))


def meant(ports: Ports, given: str, if_match: str | None) -> str:
    """The name of the cluster to change, which is in the state that If-Match names."""
    name, version = known(given), version_of(if_match)
    if version is not None:
        check_version(ports.clusters.get(name), version)
    return name


def accepted(cluster: Cluster) -> Response[str]:
    return answer(ClusterView.of(cluster), status=202, location=f"/v1/clusters/{cluster.name}")
