"""/v1/runs: all routes of runs; to look at one and to label it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.list_outputs import uri
from trainyard.app.runs.read_sync import latest_sync
from trainyard.app.runs.show_run import show_run
from trainyard.domain.advice import copied
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.etags import ETAG_HEADER, IfMatch, IfNoneMatch, fresh, version_of
from trainyard.http.export_views import Sync
from trainyard.http.identifiers import RunPath, run_to_change
from trainyard.http.identifiers import run_id as known
from trainyard.http.run_list import listing
from trainyard.http.run_log import log
from trainyard.http.run_metrics import metrics
from trainyard.http.run_outputs import outputs
from trainyard.http.run_pages import pages
from trainyard.http.run_submission import submission
from trainyard.http.run_verbs import TAGS, verbs
from trainyard.http.run_views import RunView
from trainyard.ports import Ports
from trainyard_contracts.sharing import RunChanges


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of runs. Verbs come first: `/v1/runs/<runId>` would match `run-...:cancel` too."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    verbs(router, ports)
    submission(router, ports)
    listing(router, ports)
    _one(router, ports)
    pages(router, ports)
    outputs(router, ports)
    log(router, ports)
    metrics(router, ports)
    return router


def _one(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs/<runId>",
        tags=TAGS,
        operation_id="getRun",
        summary="Show a run with its newest sample",
        responses=documented(
            200, RunView, "The run", 404, 409, headers=ETAG_HEADER, unchanged=True
        ),
    )
    def show(run_id: RunPath, if_none_match: IfNoneMatch = None) -> Response[str]:
        run, latest = show_run(ports(), known(ports(), run_id))
        found = latest_sync(ports(), run)
        sync = Sync.of(found) if found is not None else None
        words = copied(found, ports().clock.now()) if found is not None else ""
        view = RunView.of(run, uri=uri(ports(), run), in_s3=words, latest=latest, sync=sync)
        return fresh(view, run.version, if_none_match)

    @router.patch(
        "/v1/runs/<runId>",
        tags=TAGS,
        operation_id="labelRun",
        summary="Set labels of a run, or take them away, and its priority; the rest stays",
        responses=documented(200, RunView, "The run", 403, 404, 409, 412, 413, 415),
    )
    def label(
        run_id: RunPath, changes: Annotated[RunChanges, Body()], if_match: IfMatch = None
    ) -> Response[str]:
        meant, version = run_to_change(ports(), run_id), version_of(if_match)
        run = asking(router, ports).label_run(
            meant, changes.labels, priority=changes.priority, version=version
        )
        return answer(RunView.of(run, uri=uri(ports(), run)))
