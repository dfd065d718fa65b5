"""How arrays and schedules come to be others', too: `:share` and `:transfer`."""

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.people.ownership import load
from trainyard.domain.array_records import RunArray
from trainyard.domain.schedule_records import Schedule
from trainyard.http.answers import answer, documented
from trainyard.http.array_views import ArrayView
from trainyard.http.callers import asking
from trainyard.http.identifiers import ArrayPath, SchedulePath, array_id, schedule_name
from trainyard.http.people_views import ShareSpec, TransferSpec
from trainyard.http.reasons import Reason
from trainyard.http.receivers import SHARE, TAGS, TRANSFER, patterns, receiver
from trainyard.http.schedule_views import ScheduleView
from trainyard.ports import Ports


def add_to(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    """Their routes."""
    _of_arrays(router, ports)
    _of_schedules(router, ports)


def _of_arrays(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, ArrayView, "The array", 403, 404, 409)

    @router.post(
        "/v1/arrays/<arrayId>:share",
        tags=TAGS,
        operation_id="shareArray",
        summary=SHARE,
        responses=responses,
    )
    def share(
        array: ArrayPath, spec: Annotated[ShareSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: RunArray = load(ports(), "array", array_id(array))
        changed = asking(router, ports).share(found, patterns(spec), reason=reason)
        return answer(ArrayView.of(changed))

    @router.post(
        "/v1/arrays/<arrayId>:transfer",
        tags=TAGS,
        operation_id="transferArray",
        summary=TRANSFER,
        responses=responses,
    )
    def transfer(
        array: ArrayPath, spec: Annotated[TransferSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: RunArray = load(ports(), "array", array_id(array))
        changed = asking(router, ports).transfer(found, receiver(spec), reason=reason)
        return answer(ArrayView.of(changed))


def _schedule(ports: Ports, schedule: Schedule) -> Response[str]:
    return answer(ScheduleView.whole(schedule, ports.clock.now()))


def _of_schedules(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, ScheduleView, "The schedule", 403, 404, 409)

    @router.post(
        "/v1/schedules/<scheduleName>:share",
        tags=TAGS,
        operation_id="shareSchedule",
        summary=SHARE,
        responses=responses,
    )
    def share(
        schedule: SchedulePath, spec: Annotated[ShareSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Schedule = load(ports(), "schedule", schedule_name(schedule))
        changed = asking(router, ports).share(found, patterns(spec), reason=reason)
        return _schedule(ports(), changed)

    @router.post(
        "/v1/schedules/<scheduleName>:transfer",
        tags=TAGS,
        operation_id="transferSchedule",
        summary=TRANSFER,
        responses=responses,
    )
    def transfer(
        schedule: SchedulePath, spec: Annotated[TransferSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Schedule = load(ports(), "schedule", schedule_name(schedule))
        changed = asking(router, ports).transfer(found, receiver(spec), reason=reason)
        return _schedule(ports(), changed)
