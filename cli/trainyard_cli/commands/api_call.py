"""`trainyard api METHOD PATH`: any call of the API, signed, for what no command does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..context import context_of
from ..problems import InvalidInput
from ..screen.output import print_json

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def api(
    typer_context: typer.Context,
    method: Annotated[str, typer.Argument(help="GET, POST, PUT, PATCH or DELETE")],
    path: Annotated[
        str, typer.Argument(help="with its query, such as '/v1/runs?limit=5'; docs/openapi.json")
    ],
    data: Annotated[
        str | None, typer.Option("--data", "-d", help="JSON; @FILE of a file, @- of standard input")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="the same key again is the same request")
    ] = None,
) -> None:
    """Make one call of the API, and print its answer as JSON."""
    verb = method.upper()
    if verb not in METHODS:
        raise InvalidInput(
            "This is no method of HTTP", f"METHOD: '{method[:50]}'", f"One of {', '.join(METHODS)}"
        )
    if not path.startswith("/"):
        raise InvalidInput(
            "The path does not begin with a slash",
            f"PATH: '{path[:200]}'",
            "Give a path of docs/openapi.json, such as /v1/runs",
        )
    client = context_of(typer_context).client
    print_json(client.call(verb, path, body=_body(data), key=idempotency_key))


def _body(data: str | None) -> Any:
    """Raises InvalidInput for what is no JSON object."""
    if data is None:
        return None
    try:
        text = _text(data)
        document = json.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            "The body cannot be sent",
            f"--data: {error}",
            "Give a JSON object, or @FILE with one",
        ) from error
    if not isinstance(document, dict):
        raise InvalidInput(
            "The body is no JSON object", f"--data: {text[:100]}", "Every body of the API is one"
        )
    return document


def _text(data: str) -> str:
    if data == "@-":
        return sys.stdin.read()
    return Path(data[1:]).read_text(encoding="utf-8") if data.startswith("@") else data
