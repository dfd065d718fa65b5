"""An HTTP request and its answer, as the parts of the local cloud hand them to each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """A request as it came over the wire.

    `raw_path` is still percent-encoded. Header names are in lower case.
    """

    method: str
    raw_path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Response:
    """An answer, complete."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def json_response(status: int, body: Any) -> Response:
    """An answer whose body is JSON."""
    return Response(
        status, [("Content-Type", "application/json")], json.dumps(body, default=str).encode()
    )
