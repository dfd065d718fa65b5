"""/v1/runs: submit, list, look at, cancel, resume and export runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.clusters.labelled import check_version
from trainyard.app.runs.dry_run import dry_run_run
from trainyard.app.runs.list_outputs import list_outputs, uri
from trainyard.app.runs.rank_logs import Whose
from trainyard.app.runs.read_logs import read_logs
from trainyard.app.runs.read_metrics import read_metrics
from trainyard.app.runs.read_sync import latest_sync
from trainyard.app.runs.show_run import show_run
from trainyard.domain.advice import copied
from trainyard.domain.records import Run
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.etags import ETAG_HEADER, IfMatch, IfNoneMatch, fresh, version_of
from trainyard.http.filters import (
    CreatedBy,
    Label,
    Mine,
    NameAsked,
    Ordered,
    RunStatuses,
    Since,
    Until,
    text_asked,
    wanted,
)
from trainyard.http.identifiers import IdempotencyKey, RunPath, run_to_change
from trainyard.http.identifiers import run_id as known
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken, WholeNumber
from trainyard.http.people import Reason
from trainyard.http.views import (
    Checkpoint,
    CheckpointPage,
    EventPage,
    LogView,
    MetricsView,
    OutputPage,
    PlanView,
    RunPage,
    RunSummary,
    RunView,
    Sync,
    TimelineEntry,
)
from trainyard.ports import Ports, Runs
from trainyard_contracts.base import told
from trainyard_contracts.commands import ALL_RANKS, HIGHEST_RANK, LONGEST_SECONDS, NODE_NAME
from trainyard_contracts.curves import LONGEST_NAME, LOSS
from trainyard_contracts.sharing import RunChanges
from trainyard_contracts.specs import RunSpec

TAGS = ["runs"]
_VERB = documented(202, RunView, "Accepted; follow the run", 403, 404, 409, 412)


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of runs. Verbs come first: `/v1/runs/<runId>` would match `run-...:cancel` too."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _verbs(router, ports)
    _submission(router, ports)
    _collection(router, ports)
    _one(router, ports)
    _lists(router, ports)
    _outputs(router, ports)
    _readings(router, ports)
    return router


def _accepted(ports: Ports, run: Run) -> Response[str]:
    view = RunView.of(run, uri=uri(ports, run))
    return answer(view, status=202, location=f"/v1/runs/{run.id}")


def _of(ports: Ports, given: str) -> tuple[Runs, str]:
    """The runs' store, and the id of a run that it has: an unknown run has no empty timeline."""
    run_id = known(ports, given)
    ports.runs.get(run_id)
    return ports.runs, run_id


def _meant(ports: Ports, given: str, if_match: str | None) -> str:
    """The id of the run to change, which is in the state that If-Match names."""
    run_id, version = run_to_change(ports, given), version_of(if_match)
    if version is not None:
        check_version(ports.runs.get(run_id), version)
    return run_id


def _verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/runs/<runId>:cancel",
        tags=TAGS,
        operation_id="cancelRun",
        responses=_VERB,
        summary="Cancel: stop the job, export what is whole, delete the run's own cluster",
    )
    def cancel(run_id: RunPath, reason: Reason = "", if_match: IfMatch = None) -> Response[str]:
        meant = _meant(ports(), run_id, if_match)
        return _accepted(ports(), asking(router, ports).cancel_run(meant, reason=reason))

    @router.post(
        "/v1/runs/<runId>:resume",
        tags=TAGS,
        operation_id="resumeRun",
        responses=_VERB,
        summary="Resume a failed or cancelled run from its newest whole checkpoint",
    )
    def resume(
        run_id: RunPath,
        filesystem: Annotated[
            str | None,
            Query(
                max_length=300,
                description="another FSx filesystem for the run's own cluster, if its own is "
                "lost: DNS name/mount name; what was synced (export.everySeconds) is brought there",
            ),
        ] = None,
        reason: Reason = "",
        if_match: IfMatch = None,
    ) -> Response[str]:
        meant = _meant(ports(), run_id, if_match)
        run = asking(router, ports).resume_run(meant, filesystem, reason=reason)
        return _accepted(ports(), run)

    @router.post(
        "/v1/runs/<runId>:export",
        tags=TAGS,
        operation_id="exportRun",
        responses=_VERB,
        summary="Export checkpoints and the final model to S3 now",
    )
    def export(run_id: RunPath, reason: Reason = "", if_match: IfMatch = None) -> Response[str]:
        meant = _meant(ports(), run_id, if_match)
        return _accepted(ports(), asking(router, ports).export_run(meant, reason=reason))


def _submission(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/runs",
        tags=TAGS,
        operation_id="submitRun",
        summary="Submit a run, or with dryrun=true see exactly what it would do",
        responses=documented(
            202, RunView, "Accepted; follow the run", 403, 409, 413, 415, 422, also={200: PlanView}
        ),
    )
    def submit(
        spec: RunSpec,
        dryrun: Annotated[bool, Query(description="answer with the plan and do nothing")] = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response[str]:
        asker = asking(router, ports)
        if dryrun:
            return answer(PlanView.of_plan(dry_run_run(ports(), spec, by=asker.person)))
        run = asker.submit_run(spec, idempotency_key=idempotency_key)
        return _accepted(ports(), run)


def _collection(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs",
        tags=TAGS,
        operation_id="listRuns",
        summary="List runs, newest first, as they are found by label, status, name and time",
        responses=documented(200, RunPage, "One page of runs"),
    )
    def list_runs(
        limit: Limit = DEFAULT_LIMIT,
        next_token: NextToken = None,
        status: RunStatuses = None,
        label: Label = None,  # as it was sent: see filters.label_texts
        name: NameAsked = None,
        cluster: Annotated[
            str | None, Query(max_length=63, description="only runs on the cluster of this name")
        ] = None,
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
            cluster=cluster,
            since=since,
            until=until,
            order=order,
        )
        page = ports().runs.list(limit=limit, token=next_token, wanted=asked)
        return answer(
            RunPage.model_construct(
                runs=[RunSummary.of(run, uri=uri(ports(), run)) for run in page.items],
                next_token=page.next_token,
            )
        )


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


def _lists(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
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


def _outputs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs/<runId>/outputs",
        tags=TAGS,
        operation_id="listRunOutputs",
        summary="What the verified export (or the sync) holds, with hashes, and URLs to read it by",
        responses=documented(200, OutputPage, "One page of the export's objects", 404, 409),
    )
    def outputs(
        run_id: RunPath,
        limit: Annotated[
            WholeNumber,
            Query(ge=1, le=1000, description="items of one page; with URLs at most 200"),
        ] = DEFAULT_LIMIT,
        next_token: NextToken = None,
        urls: Annotated[
            bool, Query(description="with a URL for each object that anybody can read it by")
        ] = False,
    ) -> Response[str]:
        page = list_outputs(
            ports(), known(ports(), run_id), limit=limit, token=next_token, urls=urls
        )
        return answer(OutputPage.of_outputs(page))


def _readings(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs/<runId>/logs",
        tags=TAGS,
        operation_id="getRunLog",
        summary="The tail of the job's or the lifecycle script's log",
        responses=documented(200, LogView, "The tail", 404, 409, 429, 502, 503),
    )
    def logs(
        run_id: RunPath,
        attempt: Annotated[
            WholeNumber | None, Query(ge=1, le=1_000_000, description="default: the newest")
        ] = None,
        lines: Annotated[WholeNumber, Query(ge=1, le=1000)] = 100,
        kind: Literal["job", "lifecycle"] = "job",
        contains: Annotated[
            str,
            Query(max_length=100, description="only lines with this text, wherever in the log"),
        ] = "",
        since_seconds: Annotated[
            WholeNumber | None,
            Query(
                alias="sinceSeconds",
                ge=1,
                le=LONGEST_SECONDS,
                description="only what was printed in so many last seconds, of an ended attempt "
                "before its end; some seconds more may come with it",
            ),
        ] = None,
        rank: Annotated[
            WholeNumber | None,
            Query(
                ge=0,
                le=HIGHEST_RANK,
                description="only what this rank printed; the job's launchers print elsewhere",
            ),
        ] = None,
        node: Annotated[
            str | None,
            Query(
                pattern=told(
                    f"^{NODE_NAME.pattern}$",
                    "must be the name of a Slurm node as the run shows it, such as ip-10-0-0-3",
                ),
                description="only what the ranks of this node printed, `lines` of each below a "
                "line such as `==> rank 3 on ip-10-0-0-3 <==`",
            ),
        ] = None,
    ) -> Response[str]:
        log = read_logs(
            ports(),
            known(ports(), run_id),
            kind=kind,
            attempt=attempt,
            lines=lines,
            contains=contains,
            since_seconds=since_seconds or 0,
            whose=Whose(ALL_RANKS if rank is None else rank, node or ""),
        )
        return answer(LogView(kind=log.kind, attempt=log.attempt, source=log.source, text=log.text))

    @router.get(
        "/v1/runs/<runId>/metrics",
        tags=TAGS,
        operation_id="getRunMetrics",
        summary="Series per node and of the training, and what the program reported",
        responses=documented(200, MetricsView, "The series", 404),
    )
    def metrics(
        run_id: RunPath,
        since_seconds: Annotated[
            WholeNumber,
            Query(
                alias="sinceSeconds",
                ge=1,
                le=7 * 86400,
                description="how far back nodes and run go, of an ended run from its end; points "
                "are of all its time",
            ),
        ] = 3600,
        name: Annotated[
            str,
            Query(
                min_length=1,
                max_length=LONGEST_NAME,
                description="whose points are shown: a name under which the program reported "
                "numbers, such as accuracy; names lists those that there are",
            ),
        ] = LOSS,
    ) -> Response[str]:
        asked = text_asked(router.current_event.raw_query_string, "name") or name
        series = read_metrics(
            ports(), known(ports(), run_id), since_seconds=since_seconds, name=asked
        )
        return answer(MetricsView.of_series(series))
