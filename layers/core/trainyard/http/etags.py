"""ETags: of which state an answer is, and of which state a request speaks.

An ETag is "<version>-<hash>": the version of the record, and a hash of all that the answer says. A
GET compares all of it, for the answer also has what changes beside the record, such as the newest
sample. A change compares the version alone: a step of the training is no reason to refuse it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header
from pydantic import BaseModel

from trainyard.domain.errors import FieldError, InvalidRequest

IfNoneMatch = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        max_length=2000,
        description="an ETag that this call answered with before; 304 if nothing has changed",
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=2000,
        description="the ETag of the state that the change is meant for; 412 if the record has "
        "changed since",
    ),
]
#: What a GET answers besides, in the OpenAPI document.
ETAG_HEADER = {
    "ETag": {
        "description": "of this state, for If-None-Match and If-Match",
        "schema": {"type": "string"},
    }
}
_ONE = re.compile(r'\s*(W/)?"([^"]*)"\s*')
_OURS = re.compile(r"([0-9]{1,12})-[0-9a-f]{16}")


def fresh(view: BaseModel, version: int, asked: str | None) -> Response[str]:
    """The view with its ETag, or 304 if the caller has it already."""
    text = view.model_dump_json(by_alias=True)
    etag = f'"{version}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"'
    headers: dict[str, str | list[str]] = {"ETag": etag}
    if asked is not None and (asked.strip() == "*" or etag[1:-1] in _tags(asked, "if-none-match")):
        return Response(304, body="", headers=headers)
    return Response(200, "application/json", text, headers=headers)


def version_of(asked: str | None) -> int | None:
    """The version of the record that If-Match names; None if any will do.

    Raises InvalidRequest for what is no ETag of this API. Several are not taken: a change is meant
    for one state.
    """
    if asked is None or asked.strip() == "*":
        return None
    found = [_OURS.fullmatch(tag) for tag in _tags(asked, "if-match", weak=False)]
    if len(found) != 1 or found[0] is None:
        raise _bad("if-match")
    return int(found[0][1])


def _tags(text: str, name: str, *, weak: bool = True) -> list[str]:
    parts = [_ONE.fullmatch(part) for part in text.split(",")]
    if any(part is None or (part[1] and not weak) for part in parts):
        raise _bad(name)
    return [part[2] for part in parts if part is not None]


def _bad(name: str) -> InvalidRequest:
    words = (
        "must be the ETag of an earlier answer, with its quotation marks, such as "
        '"12-0123456789abcdef"'
    )
    return InvalidRequest(f"{name}: {words}", errors=[FieldError(name, words)])
