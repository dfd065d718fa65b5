"""/v1/runs/{id}:cancel, :resume and :export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.clusters.labelled import check_version
from trainyard.app.runs.list_outputs import uri
from trainyard.domain.records import Run
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.etags import IfMatch, version_of
from trainyard.http.identifiers import RunPath, run_to_change
from trainyard.http.people import Reason
from trainyard.http.run_views import RunView
from trainyard.ports import Ports

TAGS = ["runs"]
_VERB = documented(202, RunView, "Accepted; follow the run", 403, 404, 409, 412)
AnotherFilesystem = Annotated[
    str | None,
    Query(
        max_length=300,
        description="another FSx filesystem for the run's own cluster, if its own is "
        "lost: DNS name/mount name; what was synced (export.everySeconds) is brought there",
    ),
]


def verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/runs/<runId>:cancel",
        tags=TAGS,
        operation_id="cancelRun",
        responses=_VERB,
        summary="Cancel: stop the job, export what is whole, delete the run's own cluster",
    )
    def cancel(run_id: RunPath, reason: Reason = "", if_match: IfMatch = None) -> Response[str]:
        to_change = meant(ports(), run_id, if_match)
        return accepted(ports(), asking(router, ports).cancel_run(to_change, reason=reason))

    @router.post(
        "/v1/runs/<runId>:resume",
        tags=TAGS,
        operation_id="resumeRun",
        responses=_VERB,
        summary="Resume a failed or cancelled run from its newest whole checkpoint",
    )
    def resume(
        run_id: RunPath,
        filesystem: AnotherFilesystem = None,
        reason: Reason = "",
        if_match: IfMatch = None,
    ) -> Response[str]:
        to_change = meant(ports(), run_id, if_match)
        run = asking(router, ports).resume_run(to_change, filesystem, reason=reason)
        return accepted(ports(), run)

    @router.post(
        "/v1/runs/<runId>:export",
        tags=TAGS,
        operation_id="exportRun",
        responses=_VERB,
        summary="Export checkpoints and the final model to S3 now",
    )
    def export(run_id: RunPath, reason: Reason = "", if_match: IfMatch = None) -> Response[str]:
        to_change = meant(ports(), run_id, if_match)
        return accepted(ports(), asking(router, ports).export_run(to_change, reason=reason))


def meant(ports: Ports, given: str, if_match: str | None) -> str:
    """The id of the run to change, which is in the state that If-Match names."""
    run_id, version = run_to_change(ports, given), version_of(if_match)
    if version is not None:
        check_version(ports.runs.get(run_id), version)
    return run_id


def accepted(ports: Ports, run: Run) -> Response[str]:
    view = RunView.of(run, uri=uri(ports, run))
    return answer(view, status=202, location=f"/v1/runs/{run.id}")
