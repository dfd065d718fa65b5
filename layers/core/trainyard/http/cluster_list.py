"""GET /v1/clusters: clusters as they are looked for."""

from __future__ import annotations

from collections.abc import Callable

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.cluster_summaries import ClusterPage, ClusterSummary
from trainyard.http.cluster_verbs import TAGS
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
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.ports import Ports


def listing(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
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
