"""Why somebody asks for a change: a header that each changing call takes, read here alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

from aws_lambda_powertools.event_handler.openapi.params import Query

from trainyard.domain.errors import FieldError, InvalidRequest

HEADER: Final = "Trainyard-Reason"
LONGEST: Final = 500
#: What many calls take by themselves.
Reason = Annotated[
    str, Query(max_length=LONGEST, description="why; the timeline or the audit list keeps it")
]
#: A character of UTF-8 has four bytes at most, and each of them three characters in the header.
_LONGEST_SENT = LONGEST * 12
_NO_BYTE = re.compile("%(?![0-9A-Fa-f]{2})")
#: The control characters that a text may hold.
_LINES = "\n\t"
#: Of each operation of the OpenAPI document that changes something.
PARAMETER: Final[dict[str, Any]] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": f"why, in percent-encoded UTF-8 of at most {LONGEST} characters of text; the "
    "audit list keeps it. A `reason` that the call itself takes is first",
    "schema": {"type": "string", "maxLength": _LONGEST_SENT, "examples": ["wrong%20data"]},
}


def reason_of(event: Mapping[str, Any]) -> str:
    """The reason of a request that may change something; '' for none, and of one that reads.

    Raises InvalidRequest, which names the header.
    """
    http = (event.get("requestContext") or {}).get("http") or {}
    headers: Mapping[str, Any] = event.get("headers") or {}
    sent = next((str(of) for name, of in headers.items() if name.lower() == HEADER.lower()), "")
    if http.get("method") == "GET" or not sent.strip():
        return ""
    return _text(sent.strip())


def _text(sent: str) -> str:
    if not sent.isascii():
        raise _wrong("holds characters that no header carries; percent-encode them as UTF-8")
    if found := _NO_BYTE.search(sent):
        raise _wrong(f"has a % at character {found.start() + 1} without two hex digits; write %25")
    try:
        text = unquote_to_bytes(sent).decode()
    except UnicodeDecodeError:
        raise _wrong("is not UTF-8 once it is decoded; percent-encode the text as UTF-8") from None
    if len(text) > LONGEST:
        raise _wrong(f"must have at most {LONGEST} characters, not {len(text)}; shorten it")
    if any(unicodedata.category(one) == "Cc" and one not in _LINES for one in text):
        raise _wrong("holds control characters; leave them out")
    return text.strip()


def _wrong(words: str) -> InvalidRequest:
    return InvalidRequest(f"{HEADER}: {words}.", errors=[FieldError(HEADER.lower(), words)])
