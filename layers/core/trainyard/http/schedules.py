"""/v1/schedules: runs that are submitted again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.dry_run_schedule import dry_run_schedule
from trainyard.app.runs.schedules import shown
from trainyard.domain.schedule_records import Schedule
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.dry_runs import DryRun
from trainyard.http.identifiers import SchedulePath
from trainyard.http.identifiers import schedule_name as known
from trainyard.http.many_plan_views import SchedulePlanView
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.reasons import Reason
from trainyard.http.schedule_views import SchedulePage, ScheduleSummary, ScheduleView
from trainyard.ports import Ports
from trainyard_contracts.schedules import ScheduleSpec

TAGS = ["schedules"]
_CREATED = documented(
    201,
    ScheduleView,
    "The schedule; the same spec again is the same schedule",
    *(403, 404, 409, 413, 415, 422),
    also={200: SchedulePlanView},
)


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of schedules; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _verbs(router, ports)
    _collection(router, ports)
    _one(router, ports)
    return router


def _answer(ports: Ports, schedule: Schedule, status: int = 200) -> Response[str]:
    view = ScheduleView.whole(schedule, ports.clock.now())
    return answer(view, status=status, location=f"/v1/schedules/{schedule.name}")


def _verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/schedules/<scheduleName>:pause",
        tags=TAGS,
        operation_id="pauseSchedule",
        summary="Submit no run until it is resumed; runs that are there go on",
        responses=documented(200, ScheduleView, "The schedule", 403, 404, 409),
    )
    def pause(schedule_name: SchedulePath, reason: Reason = "") -> Response[str]:
        asker = asking(router, ports)
        return _answer(ports(), asker.pause_schedule(known(schedule_name), reason=reason))

    @router.post(
        "/v1/schedules/<scheduleName>:resume",
        tags=TAGS,
        operation_id="resumeSchedule",
        summary="Go on with its next time; those of the pause have no run",
        responses=documented(200, ScheduleView, "The schedule", 403, 404, 409),
    )
    def resume(schedule_name: SchedulePath) -> Response[str]:
        return _answer(ports(), asking(router, ports).resume_schedule(known(schedule_name)))


def _collection(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/schedules",
        tags=TAGS,
        operation_id="createSchedule",
        summary="Create a schedule, or with dryrun=true see when it would submit what",
        responses=_CREATED,
    )
    def create(spec: Annotated[ScheduleSpec, Body()], dryrun: DryRun = False) -> Response[str]:
        asker = asking(router, ports)
        if dryrun:
            plan = dry_run_schedule(ports(), spec, by=asker.person)
            refused = asker.why_refused(max(one.priority for one in spec.chain))
            return answer(SchedulePlanView.of_schedule(plan, spec.timezone, refused))
        return _answer(ports(), asker.create_schedule(spec), 201)

    @router.get(
        "/v1/schedules",
        tags=TAGS,
        operation_id="listSchedules",
        summary="List schedules, newest first",
        responses=documented(200, SchedulePage, "One page of schedules"),
    )
    def listing(limit: Limit = DEFAULT_LIMIT, next_token: NextToken = None) -> Response[str]:
        page, now = ports().schedules.list(limit=limit, token=next_token), ports().clock.now()
        found = [ScheduleSummary.of_schedule(one, now) for one in page.items]
        return answer(SchedulePage.made(schedules=found, next_token=page.next_token))


def _one(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/schedules/<scheduleName>",
        tags=TAGS,
        operation_id="getSchedule",
        summary="Show a schedule, its next times, and what became of those before",
        responses=documented(200, ScheduleView, "The schedule", 404),
    )
    def show(schedule_name: SchedulePath) -> Response[str]:
        return _answer(ports(), shown(ports(), known(schedule_name)))

    @router.delete(
        "/v1/schedules/<scheduleName>",
        tags=TAGS,
        operation_id="deleteSchedule",
        summary="Delete a schedule; runs that it submitted go on",
        responses=documented(200, ScheduleView, "The schedule, deleted", 403, 404, 409),
    )
    def delete(schedule_name: SchedulePath, reason: Reason = "") -> Response[str]:
        asker = asking(router, ports)
        return _answer(ports(), asker.delete_schedule(known(schedule_name), reason=reason))
