"""What a run has many of, page by page: its timeline and its checkpoints."""

from __future__ import annotations

from collections.abc import Callable

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.http.answers import answer, documented
from trainyard.http.export_views import Checkpoint, CheckpointPage
from trainyard.http.identifiers import RunPath
from trainyard.http.identifiers import run_id as known
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.run_verbs import TAGS
from trainyard.http.timeline_views import EventPage, TimelineEntry
from trainyard.outside.runs import Runs
from trainyard.ports import Ports


def pages(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs/<runId>/events",
        tags=TAGS,
        operation_id="listRunEvents",
        summary="The timeline, oldest first, with reasons",
        responses=documented(200, EventPage, "One page of the timeline", 404),
    )
    def events(
        run_id: RunPath, limit: Limit = DEFAULT_LIMIT, next_token: NextToken = None
    ) -> Response[str]:
        store, meant = _of(ports(), run_id)
        page = store.timeline(meant, limit=limit, token=next_token)
        return answer(
            EventPage.model_construct(
                events=[TimelineEntry.of(entry) for entry in page.items], next_token=page.next_token
            )
        )

    @router.get(
        "/v1/runs/<runId>/checkpoints",
        tags=TAGS,
        operation_id="listRunCheckpoints",
        summary="Checkpoints, newest step first",
        responses=documented(200, CheckpointPage, "One page of checkpoints", 404),
    )
    def checkpoints(
        run_id: RunPath, limit: Limit = DEFAULT_LIMIT, next_token: NextToken = None
    ) -> Response[str]:
        store, meant = _of(ports(), run_id)
        page = store.checkpoints(meant, limit=limit, token=next_token)
        return answer(
            CheckpointPage.model_construct(
                checkpoints=[Checkpoint.of(found) for found in page.items],
                next_token=page.next_token,
            )
        )


def _of(ports: Ports, given: str) -> tuple[Runs, str]:
    """The runs' store, and the id of a run that it has: an unknown run has no empty timeline."""
    run_id = known(ports, given)
    ports.runs.get(run_id)
    return ports.runs, run_id
