"""/v1/clusters: create, list, look at, change and delete clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.clusters.adopt_cluster import plan_adoption
from trainyard.app.clusters.labelled import check_version
from trainyard.app.runs.dry_run import dry_run_cluster, dry_run_update
from trainyard.domain.records import Cluster
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.etags import ETAG_HEADER, IfMatch, IfNoneMatch, fresh, version_of
from trainyard.http.filters import (
    ClusterStatuses,
    CreatedBy,
    Label,
    Mine,
    NameAsked,
    Ordered,
    Since,
    Until,
    wanted,
)
from trainyard.http.identifiers import ClusterPath, IdempotencyKey
from trainyard.http.identifiers import cluster_name as known
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.people import Reason
from trainyard.http.views import (
    AdoptionPlanView,
    ClusterPage,
    ClusterSummary,
    ClusterView,
    PlanView,
)
from trainyard.ports import Ports
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.sharing import ClusterChanges

TAGS = ["clusters"]
_CREATED = documented(
    202, ClusterView, "Accepted; follow the cluster", 403, 409, 413, 415, 422, also={200: PlanView}
)
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
_FLEET = documented(202, ClusterView, "Accepted; follow the cluster's change", 403, 404, 409, 412)
DryRun = Annotated[bool, Query(description="answer with the plan and do nothing")]
GiveUpJobs = Annotated[bool, Query(description="end people's jobs on it, too; never an active run")]
Force = Annotated[
    bool,
    Query(
        description="give up people's jobs on it, and what was not exported; never an active run"
    ),
]


def _accepted(cluster: Cluster) -> Response[str]:
    return answer(ClusterView.of(cluster), status=202, location=f"/v1/clusters/{cluster.name}")


def _meant(ports: Ports, given: str, if_match: str | None) -> str:
    """The name of the cluster to change, which is in the state that If-Match names."""
    name, version = known(given), version_of(if_match)
    if version is not None:
        check_version(ports.clusters.get(name), version)
    return name


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of clusters; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _adoption(router, ports)
    _verbs(router, ports)
    _collection(router, ports)
    _one(router, ports)
    return router


def _adoption(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
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
        return _accepted(asker.adopt_cluster(spec, idempotency_key=idempotency_key))

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
        name = _meant(ports(), cluster_name, if_match)
        asker = asking(router, ports)
        return _accepted(asker.release_cluster(name, force=force, reason=reason))


def _verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
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
        name = _meant(ports(), cluster_name, if_match)
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
        name = _meant(ports(), cluster_name, if_match)
        return _accepted(asking(router, ports).stop_fleet(name, force=force, reason=reason))

    @router.post(
        "/v1/clusters/<clusterName>:start",
        tags=TAGS,
        operation_id="startCluster",
        summary="Start the cluster's fleet, which was stopped",
        responses=_FLEET,
    )
    def start(cluster_name: ClusterPath, if_match: IfMatch = None) -> Response[str]:
        name = _meant(ports(), cluster_name, if_match)
        return _accepted(asking(router, ports).start_fleet(name))


def _collection(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
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
        return _accepted(asker.create_cluster(spec, idempotency_key=idempotency_key))

    @router.get(
        "/v1/clusters",
        tags=TAGS,
        operation_id="listClusters",
        summary="List clusters, newest first, as they are found by label, status, name and time",
        responses=documented(200, ClusterPage, "One page of clusters"),
    )
    def list_clusters(
        limit: Limit = DEFAULT_LIMIT,
        next_token: NextToken = None,
        status: ClusterStatuses = None,
        label: Label = None,  # as it was sent: see filters.label_texts
        name: NameAsked = None,
        since: Since = None,
        until: Until = None,
        mine: Mine = False,
        created_by: CreatedBy = None,
        order: Ordered = "newest",
    ) -> Response[str]:
        asked = wanted(
            router.current_event.raw_query_string,
            owner=asking(router, ports).person if mine else None,
            created_by=created_by,
            statuses=status,
            name=name,
            since=since,
            until=until,
            order=order,
        )
        page = ports().clusters.list(limit=limit, token=next_token, wanted=asked)
        clusters = [ClusterSummary.of(cluster) for cluster in page.items]
        return answer(ClusterPage.model_construct(clusters=clusters, next_token=page.next_token))


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
        name = _meant(ports(), cluster_name, if_match)
        if dryrun:
            return answer(PlanView.of_plan(dry_run_update(ports(), name, spec)))
        return _accepted(asking(router, ports).update_cluster(name, spec))

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
        name = _meant(ports(), cluster_name, if_match)
        return _accepted(asking(router, ports).delete_cluster(name, force=force, reason=reason))
