"""Arrays of runs in the table (layout: `table.py`)."""

from __future__ import annotations

import builtins

from trainyard.aws import listing
from trainyard.aws.items import Item, number, pack, readable, record_of, stamp, text
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.array_records import RunArray
from trainyard.domain.listing import EVERYTHING
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page

_ACTIVE, _ENDED = "arrays#active", "arrays#ended"
_SORT_KEY = "array"


class TableArrays:
    """The port `Arrays` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def create(self, array: RunArray) -> RunArray:
        written = self._table.put(_item(array), condition="attribute_not_exists(pk)")
        return array if written else self.get(array.id)

    def get(self, array_id: str) -> RunArray:
        item = self._table.get(_pk(array_id), _SORT_KEY)
        if item is None:
            raise errors.ArrayNotFound.of(array_id)
        return _read(item)

    def put(self, array: RunArray) -> RunArray:
        after = array.changed(version=array.version + 1, updated_at=self._clock.now())
        values = {":before": number(array.version)}
        if not self._table.put(_item(after), condition="version = :before", values=values):
            raise errors.ConflictError(
                f"array {array.id} was changed by someone else since version {array.version}"
            )
        return after

    def list(self, *, limit: int, token: str | None) -> Page[RunArray]:
        partitions = [_ACTIVE, _ENDED]
        return listing.search(self._table, partitions, _read, EVERYTHING, limit=limit, token=token)

    def active(self) -> builtins.list[RunArray]:
        found = readable(_read, self._table.listed(_ACTIVE))
        return [array for _, array in found if not array.over]


def _read(item: Item) -> RunArray:
    return record_of(RunArray, item)


def _pk(array_id: str) -> str:
    return f"array#{array_id}"


def _item(array: RunArray) -> Item:
    return {
        "pk": text(_pk(array.id)),
        "sk": text(_SORT_KEY),
        "doc": pack(array),
        "version": number(array.version),
        "gsi1pk": text(_ENDED if array.over else _ACTIVE),
        "gsi1sk": text(f"{stamp(array.created_at)}#{array.id}"),
        **listing.attributes(
            name=array.name,
            status=array.status,
            cluster=array.cluster_name,
            created_by=array.created_by,
        ),
    }
