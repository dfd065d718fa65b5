"""The two parameters of every list, and the bounds that keep a page small."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

Limit = Annotated[int, Query(ge=1, le=100, description="items of one page")]
NextToken = Annotated[
    str | None, Query(alias="nextToken", max_length=4096, description="from the page before, with the same other parameters")
]
DEFAULT_LIMIT = 20
