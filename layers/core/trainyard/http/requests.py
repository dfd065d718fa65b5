"""What every request must be before a route sees it: small, JSON, one object, known parameters."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.domain.errors import BodyTooLarge, FieldError, InvalidRequest

#: A request's body may have so much; a table's item takes 400 KB.
BODY_LIMIT_BYTES = 256 * 1024


class UnsupportedMediaType(InvalidRequest):
    """A body that does not say it is JSON. curl's -d alone sends a form."""

    title = "The body must be JSON"
    next_step = "Send the header 'Content-Type: application/json'."


def readable(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event with its body as text, once it is small enough and says that it is JSON.

    Raises BodyTooLarge, UnsupportedMediaType, or InvalidRequest for a body that is not UTF-8.
    """
    body = event.get("body")
    if not body:
        return event
    _check_size(body, bool(event.get("isBase64Encoded")))
    _check_media_type(event.get("headers") or {})
    if not event.get("isBase64Encoded"):
        return event
    try:
        return {**event, "body": base64.b64decode(body).decode(), "isBase64Encoded": False}
    except ValueError:
        raise _invalid("is not UTF-8 text") from None


def _check_size(body: str, is_base64: bool) -> None:
    # Base64 carries 3 bytes in 4 characters; exact enough for a limit, and costs nothing.
    size = len(body) * 3 // 4 if is_base64 else len(body.encode("utf-8", "surrogatepass"))
    if size > BODY_LIMIT_BYTES:
        field = FieldError("body", f"must have at most {BODY_LIMIT_BYTES} bytes, not {size}")
        raise BodyTooLarge(
            f"The body has {size} bytes; the limit is {BODY_LIMIT_BYTES} bytes (256 KiB).",
            errors=[field],
        )


def _check_media_type(headers: Mapping[str, Any]) -> None:
    given = next(
        (str(value) for name, value in headers.items() if name.lower() == "content-type"),
        "application/json",
    )
    media_type = given.partition(";")[0].strip().lower()
    if media_type != "application/json":
        field = FieldError("content-type", f"must be application/json, not '{media_type[:100]}'")
        raise UnsupportedMediaType(
            f"The body's Content-Type is '{media_type[:100]}'.", errors=[field]
        )


def parse_object(text: str) -> dict[str, Any]:
    """The resolver's JSON reader: one object, no repeated key, no NaN.

    Raises InvalidRequest with the place of the mistake.
    """
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except json.JSONDecodeError as mistake:
        raise _invalid(
            f"is not valid JSON: {mistake.msg} at line {mistake.lineno}, column {mistake.colno}"
        ) from None
    except RecursionError:
        raise _invalid("is nested too deeply") from None
    except ValueError as mistake:  # a repeated key, NaN, or an integer of thousands of digits
        raise _invalid(str(mistake)) from None
    if not isinstance(value, dict):
        raise _invalid(f"must be a JSON object, not {_JSON_TYPES.get(type(value), 'null')}")
    return value


def check_parameters(given: Mapping[str, Any], known: set[str]) -> None:
    """Refuse query parameters that the route does not know, so that no mistake is ignored."""
    unknown = sorted(set(given) - known)
    if unknown:
        allowed = (
            f"use one of: {', '.join(sorted(known))}"
            if known
            else "this path takes no query parameters"
        )
        raise InvalidRequest(
            f"Unknown query parameter '{unknown[0][:100]}'.",
            errors=[
                FieldError(name[:100], f"is not a query parameter of this path; {allowed}")
                for name in unknown[:20]
            ],
        )


_JSON_TYPES = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = _first_repeated([name for name, _ in pairs])
        raise ValueError(f"has the key '{twice[:100]}' twice in one object; keep one of them")
    return found


def _first_repeated(names: Sequence[str]) -> str:
    """In one pass: a body within its limit has room for tens of thousands of keys."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            break
        seen.add(name)
    return name


def _no_constant(name: str) -> Any:
    raise ValueError(f"contains {name}, which is not JSON; use a number")


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(f"The body {message}.", errors=[FieldError("body", message)])
