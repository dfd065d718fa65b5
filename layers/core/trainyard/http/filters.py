"""What a list may be asked for in its query, and what it means."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timezone
from typing import Annotated, get_args
from urllib.parse import parse_qsl

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AfterValidator, AwareDatetime, BeforeValidator

from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.domain.filesystem_records import FilesystemStatus
from trainyard.domain.listing import Order, Wanted
from trainyard.domain.records import ClusterStatus, RunStatus
from trainyard_contracts.labels import label_key, label_value
from trainyard_contracts.people import Person

#: Labels and statuses of one request: DynamoDB's filter has at most 4 KB.
MOST_LABELS_ASKED = 10


def _known(words: Collection[str]) -> Callable[[object], object]:
    """Finds the word however its letters are written; pydantic refuses what is none of them."""
    by_small = {word.casefold(): word for word in words}
    return lambda given: by_small.get(given.casefold(), given) if isinstance(given, str) else given


_SEVERAL = "given several times or with commas; capital letters do not matter"
RunStatuses = Annotated[
    list[Annotated[RunStatus, BeforeValidator(_known(get_args(RunStatus)))]] | None,
    Query(alias="status", description=f"only runs of one of these statuses; {_SEVERAL}"),
]
ClusterStatuses = Annotated[
    list[Annotated[ClusterStatus, BeforeValidator(_known(get_args(ClusterStatus)))]] | None,
    Query(alias="status", description=f"only clusters of one of these statuses; {_SEVERAL}"),
]
FilesystemStatuses = Annotated[
    list[Annotated[FilesystemStatus, BeforeValidator(_known(get_args(FilesystemStatus)))]] | None,
    Query(alias="status", description=f"only filesystems of one of these statuses; {_SEVERAL}"),
]
Label = Annotated[
    list[str] | None,
    Query(
        description="only what has this label: key=value, or key for any value; given several "
        f"times, all of them must be there; at most {MOST_LABELS_ASKED}"
    ),
]
NameAsked = Annotated[
    str | None,
    Query(
        alias="name",
        min_length=1,
        max_length=64,
        description="only what has this name; a * at its end stands for any letters",
    ),
]


def in_utc(given: datetime) -> datetime:
    """Near the first and the last year there are times that UTC has not. Raises ValueError."""
    try:
        return given.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(
            "must be a time of the years 1 to 9999 in UTC, such as 2026-11-24T08:00:00Z"
        ) from None


def with_zone(given: str) -> datetime:
    """The time that a text says; pydantic's own words do not show what would be right.

    Raises ValueError.
    """
    with contextlib.suppress(ValueError):
        found = datetime.fromisoformat(given)
        if found.tzinfo is not None:
            return found
    raise ValueError("must be a time with its zone, such as 2026-11-24T08:00:00Z")


Moment = Annotated[AwareDatetime, BeforeValidator(with_zone), AfterValidator(in_utc)]
Since = Annotated[
    Moment | None,
    Query(description="only what was created at this time (RFC 3339) or later"),
]
Until = Annotated[
    Moment | None, Query(description="only what was created before this time (RFC 3339)")
]
Mine = Annotated[bool, Query(description="only what belongs to the signer of the request")]
CreatedBy = Annotated[
    str | None,
    Query(
        alias="createdBy",
        min_length=1,
        max_length=300,
        description="only what belongs to the person with this name or ARN",
    ),
]
Ordered = Annotated[Order, Query(description="which comes first, by the time of creation")]


def label_texts(raw_query: str) -> list[str]:
    """The labels as they were sent: a comma in a value is no end of it."""
    pairs = parse_qsl(raw_query, keep_blank_values=True)
    return [value for name, value in pairs if name == "label"]


def text_asked(raw_query: str, parameter: str) -> str:
    """The text as it was sent, which the framework would cut at a comma; '' for none."""
    pairs = parse_qsl(raw_query, keep_blank_values=True)
    return next((value for name, value in pairs if name == parameter), "")


def wanted_labels(texts: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    """Raises InvalidRequest for what cannot be a label."""
    if len(texts) > MOST_LABELS_ASKED:
        raise _refused(f"has {len(texts)} labels; at most {MOST_LABELS_ASKED} are taken")
    try:
        return tuple(dict.fromkeys(_pairs(texts)))
    except ValueError as mistake:
        raise _refused(f"{mistake}; give key=value, or key for any value") from None


def _pairs(texts: Iterable[str]) -> Iterable[tuple[str, str | None]]:
    for text in texts:
        given, equals, value = text.partition("=")
        key = label_key(given)
        yield key, label_value(key, value) if equals else None


def wanted(
    raw_query: str,
    *,
    statuses: Sequence[str] | None = None,
    name: str | None = None,
    cluster: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    owner: Person | None = None,
    created_by: str | None = None,
    order: Order = "newest",
) -> Wanted:
    """What the query asks for. Raises InvalidRequest."""
    return Wanted(
        statuses=frozenset(statuses or ()),
        labels=wanted_labels(label_texts(raw_query)),
        name=name or "",
        cluster=cluster or "",
        since=since,
        until=until,
        owner=owner,
        created_by=created_by or "",
        order=order,
    )


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(f"label: {message}", errors=[FieldError("label", message)])
