"""How records are kept in DynamoDB items: as one JSON document each, so no float meets Decimal."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, TypeVar

from pydantic import BaseModel

from trainyard_contracts.base import read_stored

Value = Mapping[str, Any]  # {"S": "..."}
Item = Mapping[str, Value]
M = TypeVar("M", bound=BaseModel)

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


def document(item: Item) -> str | bytes:
    """The JSON of an item's `doc`."""
    value = item["doc"]
    return value["S"] if "S" in value else zlib.decompress(bytes(value["B"]))


def stamp(at: datetime) -> str:
    """A UTC time that sorts as text."""
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def unstamp(value: str) -> datetime:
    return datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
