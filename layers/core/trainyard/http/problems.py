"""One table from errors to RFC 9457 problems, so that all failures of the API look the same."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, ConfigDict, Field

from trainyard.domain import errors as e
from trainyard.http.nearest import did_you_mean
from trainyard.http.requests import UnsupportedMediaType
from trainyard_contracts.base import words_for

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:trainyard:problem:"
INSTANCE_PREFIX = "urn:trainyard:request:"
#: So many fields an answer names that are wrong; the others follow once these are right.
MAX_ERRORS = 50

#: The nearest class in an error's MRO decides.
STATUS: dict[type[Exception], int] = {
    UnsupportedMediaType: 415,
    e.BodyTooLarge: 413,
    e.InvalidRequest: 400,
    e.Forbidden: 403,
    e.NotFound: 404,
    e.MethodNotAllowed: 405,
    e.ConflictError: 409,
    e.PreconditionFailed: 412,
    e.SessionEncrypted: 409,
    e.NoCapacity: 503,
    e.BackendRejected: 422,
    e.UploadIncomplete: 422,
    e.Throttled: 429,
    e.RetryableError: 503,
    e.CommandFailed: 502,
    e.TrainyardError: 500,
}
RETRY_AFTER = {429: "2", 503: "10"}


class ProblemError(BaseModel):
    """What is wrong with one field, and what would be right."""

    field: str = Field(description="camelCase, dotted: cluster.spec.instanceGroups.0.name")
    message: str


class ProblemDetails(BaseModel):
    """An RFC 9457 problem. `code` is closed; programs branch on it and never on the words."""

    model_config = ConfigDict(json_schema_extra={"title": "ProblemDetails"})

    type: str
    title: str
    status: int
    code: str = Field(json_schema_extra={"enum": [*sorted(e.CODES)]})
    detail: str
    nextStep: str
    instance: str | None = Field(
        default=None,
        description="this very answer: urn:trainyard:request: and the request's id, by which the "
        "function's log and the gateway's have it",
        json_schema_extra={"examples": ["urn:trainyard:request:Yz1x2gA0IAMEV7w="]},
    )
    errors: list[ProblemError] | None = None


def status_of(error: e.TrainyardError) -> int:
    """The status of HTTP that it is answered with."""
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def problem_response(error: e.TrainyardError, request_id: str = "") -> Response[str]:
    """The problem of an error of our own tree."""
    status = status_of(error)
    body: dict[str, Any] = {
        "type": TYPE_PREFIX + error.code,
        "title": error.title,
        "status": status,
        "code": error.code,
        "detail": error.detail,
        "nextStep": error.next_step,
    }
    if request_id:
        body["instance"] = INSTANCE_PREFIX + quote(request_id, safe="=-_")
    if error.errors:
        body["errors"] = [
            {"field": item.field, "message": item.message} for item in error.errors[:MAX_ERRORS]
        ]
    headers = {"Retry-After": RETRY_AFTER[status]} if status in RETRY_AFTER else {}
    return Response(status, MEDIA_TYPE, json.dumps(body), headers=headers)


def internal_response(request_id: str) -> Response[str]:
    """The problem of an unexpected error: it gives only the id by which the log has the details."""
    return problem_response(
        e.TrainyardError(f"The request {request_id} failed for a reason that is only in the log."),
        request_id,
    )


def invalid_request(
    mistakes: Iterable[Mapping[str, Any]],
    known: Callable[[Sequence[str | int]], Iterable[str]] = lambda _: (),
) -> e.InvalidRequest:
    """The problem of what pydantic found wrong, in the wire's own field names.

    `known` answers with the fields that are known where an unknown one is.
    """
    found = [_field_error(mistake, known) for mistake in mistakes]
    first = found[0]
    more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
    detail = (
        f"{first.field}: {first.message}{more}"
        if first.field != "body"
        else f"The body {first.message}{more}"
    )
    return e.InvalidRequest(detail, errors=found)


# Validators of a whole object name the guilty field themselves: "job.nodes: 3 nodes asked, but ..."
_NAMED = re.compile(r"^([a-z][A-Za-z0-9]*(?:\.(?:[a-z][A-Za-z0-9]*|[0-9]+))*): (.+)$", re.DOTALL)
_PLACES = ("body", "query", "path", "header")


def _field_error(
    mistake: Mapping[str, Any], known: Callable[[Sequence[str | int]], Iterable[str]]
) -> e.FieldError:
    location: Sequence[Any] = mistake["loc"]
    if location and location[0] == "query":
        location = location[:2]  # which of a parameter's values it was, its words say
    path = [
        str(part)[:100]
        for part in (location[1:] if location and location[0] in _PLACES else location)
        if part != "[key]"
    ]
    message = _message(mistake)
    if mistake["type"] == "extra_forbidden":
        message += did_you_mean(str(location[-1]), known(location))
    if mistake["type"] == "value_error" and (named := _NAMED.match(message)):
        path.append(named[1])
        message = named[2]
    return e.FieldError(".".join(path) or "body", message)


def _message(mistake: Mapping[str, Any]) -> str:
    kind, context = mistake["type"], mistake.get("ctx") or {}
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "is not a known field; remove it or correct its name"
    if kind == "string_pattern_mismatch":
        return words_for(str(context.get("pattern", "")))
    if kind == "literal_error":
        expected = str(context.get("expected", ""))
        allowed = re.findall(r"'([^']*)'", expected)
        return f"must be one of {expected}{did_you_mean(str(mistake.get('input', '')), allowed)}"
    if kind in ("model_attributes_type", "model_type", "dict_type"):
        return "must be an object"
    words = str(mistake["msg"]).removeprefix("Value error, ")
    for library, ours in (
        ("Input should be ", "must be "),
        ("String should ", "must "),
        ("List should ", "must "),
        ("Dictionary should ", "must "),
        (" after validation", ""),
        ("valid number, unable to parse string as a number", "number"),
        ("valid integer, unable to parse string as an integer", "whole number"),
        ("a valid integer", "a whole number"),
        ("a valid number", "a number"),
        ("a valid boolean", "true or false"),
        ("a valid string", "a string"),
    ):
        words = words.replace(library, ours)
    return words[:1].lower() + words[1:]
