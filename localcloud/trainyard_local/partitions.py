"""Makes moto's DynamoDB queries cheap: stock moto sorts every item of the table for each one, here only those that its key can mean."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainyard_local.pinned import replace

_QUERY = (
    "self", "hash_key", "range_comparison", "range_objs", "limit", "exclusive_start_key", "scan_index_forward", "projection_expressions",
    "index_name", "consistent_read", "filter_expression", "hash_key_conditions", "range_key_conditions", "filter_kwargs",
)  # fmt: skip
_query = threading.local()


def install() -> None:
    """Hook moto's tables; once per process. moto still checks every condition itself, on fewer items."""
    from moto.dynamodb.models.table import Table

    def query(self: Any, hash_key: Any, range_comparison: Any, range_objs: Any, *rest: Any, **named: Any) -> Any:
        index = rest[4] if len(rest) > 4 else named.get("index_name")
        if index:
            _query.items = _of_index(self, dict(named.get("hash_key_conditions") or []))
        elif self.range_key_attr:
            _query.items = _of_partition(self, hash_key, str(range_comparison), range_objs)
        try:
            return original(self, hash_key, range_comparison, range_objs, *rest, **named)
        finally:
            _query.items = None

    def all_items(self: Any) -> Any:
        items = getattr(_query, "items", None)
        return every(self) if items is None else items

    original = replace(Table, "query", query, parameters=_QUERY)
    every = replace(Table, "all_items", all_items, parameters=("self",))


def _of_partition(table: Any, hash_key: Any, comparison: str, values: Sequence[Any]) -> list[Any]:
    """The items of one partition that the sort key's condition lets through, in the order of the sort key."""
    rows: Mapping[Any, Any] = table.items.get(hash_key) or {}
    if any(key.type != "S" for key in [*rows, *values]):
        return list(rows.values())
    wanted = _condition(comparison, [value.value for value in values])
    return [item for _, item in sorted((key.value, item) for key, item in rows.items() if wanted(key.value))]


def _condition(comparison: str, values: Sequence[str]) -> Callable[[str], bool]:
    if comparison == "BEGINS_WITH":
        return lambda key: key.startswith(values[0])
    if comparison == "BETWEEN":
        return lambda key: values[0] <= key <= values[1]
    return lambda key: True


def _of_index(table: Any, hash_keys: Mapping[str, Any]) -> list[Any]:
    """The items that have the index's hash key."""
    rows = table.items.values()
    items = [item for row in rows for item in row.values()] if table.range_key_attr else list(rows)
    for name, value in hash_keys.items():
        items = [item for item in items if (found := item.attrs.get(name)) and found.value == value.value and found.type == value.type]
    return items
