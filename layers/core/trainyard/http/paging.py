"""The two parameters of every list, and the bounds that keep a page small."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BeforeValidator


def digits(value: object) -> object:
    """Refuses 1_0 and a leading blank, which Python reads as numbers. Raises ValueError."""
    if isinstance(value, str) and not value.removeprefix("-").isdecimal():
        raise ValueError("must be a whole number")
    return value


WholeNumber = Annotated[int, BeforeValidator(digits)]
Limit = Annotated[WholeNumber, Query(ge=1, le=100, description="items of one page")]
NextToken = Annotated[
    str | None,
    Query(
        alias="nextToken",
        max_length=4096,
        description="from the page before, with the same other parameters",
    ),
]
#: Entries of a page that asks for no other number.
DEFAULT_LIMIT = 20
