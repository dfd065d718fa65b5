"""The whole API: one resolver over every resource's router, and the last resort for failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError

from trainyard.app.people.on_behalf import OnBehalf
from trainyard.domain.errors import MethodNotAllowed, NotFound, TrainyardError
from trainyard.http import (
    approvals,
    arrays,
    budgets,
    clusters,
    costs,
    filesystems,
    nodes,
    people,
    runs,
    schedules,
    uploads,
    webhooks,
)
from trainyard.http.callers import caller_of
from trainyard.http.nearest import fields_beside, meant
from trainyard.http.problems import (
    internal_response,
    invalid_request,
    problem_response,
    status_of,
)
from trainyard.http.requests import check_parameters, parse_object, readable
from trainyard.ports import Ports

log = Logger(service="api", serialize_stacktrace=False)


class Api:
    """The API over its ports.

    `ports` is called at each request, so that building the API touches nothing of AWS.
    """

    def __init__(self, ports: Callable[[], Ports]) -> None:
        self.resolver = APIGatewayHttpResolver(
            enable_validation=True, json_body_deserializer=parse_object
        )
        self.resolver.use([_refuse_unknown_parameters, _only_with_a_role(ports)])
        for resource in (
            people,
            costs,
            budgets,
            approvals,
            runs,
            arrays,
            schedules,
            clusters,
            filesystems,
            nodes,
            uploads,
            webhooks,
        ):
            self.resolver.include_router(resource.routes(ports))
        self._ports = ports
        self.resolver.exception_handler(TrainyardError)(self._refused)
        self.resolver.exception_handler(RequestValidationError)(self._invalid)
        self.resolver.exception_handler(NotFoundError)(self._no_route)
        self.resolver.exception_handler(Exception)(self._last_resort)

    def handle(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Answer one API Gateway event (HTTP API, payload 2.0)."""
        try:
            return self.resolver.resolve(readable(event), context)
        except TrainyardError as refused:  # before there was a route
            return _gateway_answer(_problem(refused, event.get("requestContext") or {}))

    def _refused(self, error: TrainyardError) -> Response[str]:
        if isinstance(error, NotFound):
            error = error.meaning(meant(self._ports(), error))
        return _problem(error, self.resolver.current_event.raw_event["requestContext"])

    def _invalid(self, mistake: RequestValidationError) -> Response[str]:
        def known(place: Sequence[str | int]) -> list[str]:
            bodies = self.resolver.context["_route"].dependant.body_params
            given = parse_object(self.resolver.current_event.body or "{}")
            return fields_beside([one.type_ for one in bodies], given, place[1:])

        return self._refused(invalid_request(mistake.errors(), known))

    def _no_route(self, _: NotFoundError) -> Response[str]:
        request = self.resolver.current_event.request_context.http
        # The resolver keeps its routes private and cannot say "wrong method"; a verb with its own
        # path never is one.
        routes = [*self.resolver._static_routes, *self.resolver._dynamic_routes]
        is_verb = ":" in request.path.rpartition("/")[2]
        allowed = (
            []
            if is_verb
            else sorted(
                {
                    route.method
                    for route in routes
                    if route.rule.match(self.resolver.current_event.path)
                }
            )
        )
        if not allowed:
            asked = f"{request.method} {request.path[:200]}"
            return self._refused(NotFound(f"{asked} is no call of this API."))
        answer = self._refused(
            MethodNotAllowed(
                f"{request.path[:200]} takes {' and '.join(allowed)}, not {request.method}."
            )
        )
        answer.headers["Allow"] = ", ".join(allowed)
        return answer

    def _last_resort(self, error: Exception) -> Response[str]:
        request = self.resolver.current_event.request_context
        log.error(
            "a request failed inside",
            exc_info=error,
            request_id=request.request_id,
            method=request.http.method,
            path=request.http.path,
        )
        return internal_response(request.request_id)


def _refuse_unknown_parameters(
    app: APIGatewayHttpResolver, next_middleware: NextMiddleware
) -> Response[str]:
    route = app.context["_route"]
    if route.rule.pattern != "^.*$":  # the resolver's own route for what it does not know
        given = app.current_event.query_string_parameters
        if given:
            check_parameters(given, {field.alias for field in route.dependant.query_params})
    return next_middleware(app)


#: Shows one without a role that they have none.
_FOR_EVERY_SIGNER = "/v1/whoami"
Middleware = Callable[[APIGatewayHttpResolver, NextMiddleware], Response[str]]


def _only_with_a_role(ports: Callable[[], Ports]) -> Middleware:
    """Who has no role reads nothing; what each change needs, the use cases say."""

    def check(app: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[str]:
        caller = caller_of(app.current_event.raw_event)
        if app.current_event.path != _FOR_EVERY_SIGNER:
            OnBehalf(ports(), caller).check_reads()
        return next_middleware(app)

    return check


def _problem(error: TrainyardError, context: Mapping[str, Any]) -> Response[str]:
    """The problem, and a line by which it is found in the log."""
    request_id, http = str(context.get("requestId") or ""), context.get("http") or {}
    log.info(
        "a request was refused",
        code=error.code,
        status=status_of(error),
        detail=error.detail,
        request_id=request_id,
        method=http.get("method"),
        path=http.get("path"),
    )
    return problem_response(error, request_id)


def _gateway_answer(response: Response[str]) -> dict[str, Any]:
    headers = {"Content-Type": response.content_type, **response.headers}
    return {
        "statusCode": response.status_code,
        "headers": headers,
        "body": response.body,
        "isBase64Encoded": False,
    }
