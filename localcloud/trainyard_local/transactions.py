"""Makes moto's DynamoDB transactions cheap: stock moto copies the whole table, every item of it, twice for a transaction of two."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from trainyard_local.pinned import wrap

_replacing = threading.local()


def install() -> None:
    """Hook moto's backend; once per process, before `locks` puts its lock around it."""
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.table import Table

    Table.__deepcopy__ = _copy
    wrap(DynamoDBBackend, "transact_write_items", _marked)


def _marked(original: Callable[..., Any]) -> Callable[..., Any]:
    def transact(self: Any, transact_items: list[dict[str, Any]]) -> Any:
        with _only_replaces(not any("Update" in item for item in transact_items)):
            return original(self, transact_items)

    return transact


@contextlib.contextmanager
def _only_replaces(true: bool) -> Iterator[None]:
    _replacing.true = true
    try:
        yield
    finally:
        _replacing.true = False


def _copy(table: Any, memo: dict[int, Any]) -> Any:
    """moto's backup of a table: Put and Delete replace items, so the items may be shared; Update changes one in place."""
    twin = copy.copy(table)
    shared = getattr(_replacing, "true", False) and table.stream_shard is None
    for name, value in vars(table).items():
        if name == "items" and shared:
            twin.items = defaultdict(dict, {key: dict(rows) if isinstance(rows, dict) else rows for key, rows in value.items()})
        elif not shared:
            setattr(twin, name, copy.deepcopy(value, memo))
    return twin
