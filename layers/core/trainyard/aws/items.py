"""How records are kept in DynamoDB items: as one JSON document each, so no float meets Decimal."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainyard.domain.errors import RecordUnreadable
from trainyard_contracts.base import read_stored

_LOG = logging.getLogger(__name__)

Value = Mapping[str, Any]  # {"S": "..."}
Item = Mapping[str, Value]
M = TypeVar("M", bound=BaseModel)
#: What reading a document raises that another version wrote, or nobody.
BROKEN = (ValidationError, KeyError, zlib.error)

#: Above this the document is compressed: names of many attempts' nodes shrink tenfold, and an item
#: has at most 400 KB.
COMPRESS_ABOVE_BYTES = 16 * 1024


def text(value: str) -> Value:
    return {"S": value}


def number(value: int) -> Value:
    return {"N": str(value)}


def pack(record: BaseModel) -> Value:
    """The record's document."""
    data = record.model_dump_json(by_alias=True).encode()
    if len(data) <= COMPRESS_ABOVE_BYTES:
        return {"S": data.decode()}
    return {"B": zlib.compress(data, 6)}


def unpack(model: type[M], item: Item) -> M:
    """The record of an item's `doc`, which another version of Trainyard may have written."""
    return read_stored(model, document(item))


def record_of(model: type[M], item: Item) -> M:
    """The same. Raises RecordUnreadable."""
    try:
        return unpack(model, item)
    except BROKEN as error:
        fields = error.errors() if isinstance(error, ValidationError) else []
        why = ".".join(map(str, fields[0]["loc"])) or fields[0]["msg"] if fields else repr(error)
        raise unreadable(item, why) from error


def unreadable(item: Item, why: str) -> RecordUnreadable:
    """The error for an item of which this version cannot make a record."""
    record = f"{item['pk']['S']} {item['sk']['S']}"
    return RecordUnreadable(f"this version cannot read the record {record} ({why})")


def readable(
    read: Callable[[Item], M], items: Iterable[tuple[str, Item]]
) -> Iterator[tuple[str, M]]:
    """Those that this version can read; each other one is logged and keeps none from its turn."""
    for position, item in items:
        try:
            yield position, read(item)
        except RecordUnreadable as error:
            _LOG.error("%s: it is passed over, and nothing is decided for it", error.detail)


def document(item: Item) -> str | bytes:
    """The JSON of an item's `doc`."""
    value = item["doc"]
    return value["S"] if "S" in value else zlib.decompress(bytes(value["B"]))


def stamp(at: datetime) -> str:
    """A UTC time that sorts as text."""
    moment = at.astimezone(timezone.utc)
    return f"{moment.year:04}{moment:-%m-%dT%H:%M:%S.%fZ}"  # %Y has no leading zeros


def unstamp(value: str) -> datetime:
    return datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
