"""Makes moto's DynamoDB transactions cheap: only the items that are touched are copied.

Stock moto copies every item of the table, once for each write of a transaction.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sam_on_moto.moto_patches.pinned import wrap

_transaction = threading.local()


def install() -> None:
    """Hook moto's backend; once per process, before `locks` puts its lock around it."""
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.table import Table

    Table.__deepcopy__ = _copy
    wrap(DynamoDBBackend, "transact_write_items", _undone_by_item)


def _undone_by_item(original: Callable[..., Any]) -> Callable[..., Any]:
    """Put back what a failed transaction touched.

    moto's backup of a table is the table itself, so its rollback does nothing.
    """

    def transact(self: Any, transact_items: list[dict[str, Any]]) -> Any:
        touched = [row for operation in transact_items for row in _touched(self.tables, operation)]
        if len(touched) < len(transact_items):  # moto knows what is wrong with it
            return original(self, transact_items)
        _transaction.open = True
        try:
            return original(self, transact_items)
        except Exception:
            for row in touched:
                row.put_back()
            raise
        finally:
            _transaction.open = False

    return transact


@dataclass(frozen=True)
class _Row:
    """Where an item lies, and a copy of what lay there (moto's updates change items in place)."""

    rows: dict[Any, Any]
    key: Any
    before: Any

    def put_back(self) -> None:
        if self.before is None:
            self.rows.pop(self.key, None)
        else:
            self.rows[self.key] = self.before


def _touched(tables: Mapping[str, Any], operation: Mapping[str, Any]) -> Sequence[_Row]:
    """The item that an operation of a transaction is about.

    None if it is malformed, or its table has what is not undone here.
    """
    from moto.dynamodb.models.dynamo_type import DynamoType

    what: Mapping[str, Any] = next(iter(operation.values()), {})
    table, key = tables.get(str(what.get("TableName"))), what.get("Item") or what.get("Key") or {}
    if (
        table is None
        or table.stream_shard is not None
        or not {table.hash_key_attr, table.range_key_attr} <= set(key)
    ):
        return []
    rows, sort = (
        table.items[DynamoType(key[table.hash_key_attr])],
        DynamoType(key[table.range_key_attr]),
    )
    return [_Row(rows, sort, copy.deepcopy(rows.get(sort)))]


def _copy(table: Any, memo: dict[int, Any]) -> Any:
    if getattr(_transaction, "open", False):
        return table
    twin = copy.copy(table)
    for name, value in vars(table).items():
        setattr(twin, name, copy.deepcopy(value, memo))
    return twin
