"""How a route answers, and how it says so in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel

from trainyard.http.problems import MEDIA_TYPE, RETRY_AFTER, ProblemDetails

_PROBLEMS = {
    400: "The request is not valid, or its page token belongs to another query",
    403: "The person may not do this; the detail says whose it is, or which role is needed",
    404: "There is no such run, cluster, filesystem, node or upload",
    409: "It conflicts with the state of things; the code says how",
    412: "It is not in the state that If-Match names; read it again",
    413: "The body is over 256 KiB",
    415: "The body is not application/json",
    422: "AWS refuses what was asked, with its reason, or the upload that it names is not usable",
    429: "AWS throttles our calls (see Retry-After), or the gateway yours, over 100 a second "
    '(its answer is {"message": ...}, without Retry-After)',
    500: "Something went wrong inside; the log has it under the request id",
    502: "A command on the cluster's controller failed",
    503: "A node cannot be reached or there is no capacity now; see Retry-After",
}
_RETRY_AFTER = {
    "Retry-After": {
        "description": "seconds until a repetition makes sense",
        "schema": {"type": "integer", "examples": [2]},
    }
}


def answer(view: BaseModel, *, status: int = 200, location: str | None = None) -> Response[str]:
    """A view as JSON; serialised once, by pydantic."""
    headers: dict[str, str | list[str]] = {"Location": location} if location else {}
    return Response(
        status, "application/json", view.model_dump_json(by_alias=True), headers=headers
    )


def documented(
    status: int,
    model: type[BaseModel],
    description: str,
    *problems: int,
    also: dict[int, type[BaseModel]] | None = None,
    headers: dict[str, Any] | None = None,
    unchanged: bool = False,
) -> Any:
    """The `responses` of a route: its answer, and the problems it may give (500 always).

    `unchanged`: 304, where If-None-Match names what the caller has.
    """
    responses: dict[int, Any] = {status: _response(model, description)}
    if headers:
        responses[status]["headers"] = headers
    if unchanged:
        responses[304] = {"description": "Nothing has changed since the ETag of If-None-Match"}
    if status == 202:
        responses[202]["headers"] = {
            "Location": {"description": "where to follow it", "schema": {"type": "string"}}
        }
    for other, other_model in (also or {}).items():
        responses[other] = _response(other_model, other_model.__doc__ or "")
    for code in sorted({*problems, 400, 429, 500}):
        responses[code] = {
            "description": _PROBLEMS[code],
            "content": {MEDIA_TYPE: {"model": ProblemDetails}},
            **({"headers": _RETRY_AFTER} if code in RETRY_AFTER else {}),
        }
    return responses


def _response(model: type[BaseModel], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"model": model}}}
