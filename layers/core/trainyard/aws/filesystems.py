"""Filesystems in the table (layout: `table.py`)."""

from __future__ import annotations

import builtins

from trainyard.aws import listing
from trainyard.aws.items import Item, Value, number, pack, readable, record_of, stamp, text
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page

_ACTIVE, _DELETED = "filesystems#active", "filesystems#deleted"
_SORT_KEY = "filesystem"


class TableFilesystems:
    """The port `Filesystems` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def create(self, filesystem: Filesystem) -> Filesystem:
        item = self._table.get(_pk(filesystem.name), _SORT_KEY)
        before = None if item is None else record_of(Filesystem, item)
        if before is not None and before.status != "Deleted":
            raise errors.FilesystemExists(
                f"a filesystem named '{filesystem.name}' exists; its status is {before.status}"
            )
        made, condition, values = filesystem, "attribute_not_exists(pk)", None
        if before is not None:
            # The version goes on counting, so a straggler of the old generation never writes
            # the new one.
            made = filesystem.changed(generation=before.generation + 1, version=before.version + 1)
            condition, values = "version = :before", {":before": number(before.version)}
        if not self._table.put(
            {**_key(made.name), **_attributes(made)}, condition=condition, values=values
        ):
            raise errors.FilesystemExists(
                f"a filesystem named '{filesystem.name}' was created at the same moment"
            )
        return made

    def get(self, name: str) -> Filesystem:
        item = self._table.get(_pk(name), _SORT_KEY)
        if item is None:
            raise errors.FilesystemNotFound.of(name)
        return record_of(Filesystem, item)

    def put(self, filesystem: Filesystem) -> Filesystem:
        after = filesystem.changed(version=filesystem.version + 1, updated_at=self._clock.now())
        item = {**_key(after.name), **_attributes(after)}
        values = {":before": number(filesystem.version)}
        if not self._table.put(item, condition="version = :before", values=values):
            raise errors.ConflictError(
                f"filesystem {filesystem.name} was changed by someone else since version "
                f"{filesystem.version}"
            )
        return after

    def list(
        self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING
    ) -> Page[Filesystem]:
        partitions = [_ACTIVE, _DELETED]
        return listing.search(self._table, partitions, _read, wanted, limit=limit, token=token)

    def active(self) -> builtins.list[Filesystem]:
        found = readable(_read, self._table.listed(_ACTIVE))
        return [filesystem for _, filesystem in found if filesystem.status != "Deleted"]


def _read(item: Item) -> Filesystem:
    return record_of(Filesystem, item)


def _pk(name: str) -> str:
    return f"filesystem#{name}"


def _key(name: str) -> Item:
    return {"pk": text(_pk(name)), "sk": text(_SORT_KEY)}


def _attributes(filesystem: Filesystem) -> dict[str, Value]:
    return {
        "doc": pack(filesystem),
        "version": number(filesystem.version),
        "gsi1pk": text(_DELETED if filesystem.status == "Deleted" else _ACTIVE),
        "gsi1sk": text(f"{stamp(filesystem.created_at)}#{filesystem.name}"),
        **listing.attributes(
            name=filesystem.name,
            status=filesystem.status,
            cluster="",
            created_by=filesystem.created_by,
        ),
    }
