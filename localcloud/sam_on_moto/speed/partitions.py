"""Makes moto's DynamoDB queries cheap: only the items that a query's key can mean are sorted.

Stock moto sorts every item of the table for each query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sam_on_moto.moto_patches.pinned import replace

_QUERY = (
    "self", "hash_key", "range_comparison", "range_objs", "limit", "exclusive_start_key",
    "scan_index_forward", "projection_expressions", "index_name", "consistent_read",
    "filter_expression", "hash_key_conditions", "range_key_conditions", "filter_kwargs",
)  # fmt: skip
_query = threading.local()


def install() -> None:
    """Hook moto's tables; once per process. moto still checks every condition, on fewer items."""
    from moto.dynamodb.models.table import Table

    def query(
        self: Any,
        hash_key: Any,
        range_comparison: Any,
        range_objs: Any,
        limit: Any,
        start: Any,
        forward: Any,
        *rest: Any,
        **named: Any,
    ) -> Any:
        index = rest[1] if len(rest) > 1 else named.get("index_name")
        if index:
            _query.items = _of_index(self, dict(named.get("hash_key_conditions") or []))
        elif self.range_key_attr:
            _query.items = _of_partition(
                self,
                hash_key,
                range_comparison,
                range_objs,
                _Page(limit, start, forward is not False),
            )
        try:
            return original(
                self, hash_key, range_comparison, range_objs, limit, start, forward, *rest, **named
            )
        finally:
            _query.items = None

    def all_items(self: Any) -> Any:
        items = getattr(_query, "items", None)
        return every(self) if items is None else items

    original = replace(Table, "query", query, parameters=_QUERY)
    every = replace(Table, "all_items", all_items, parameters=("self",))


@dataclass(frozen=True)
class _Page:
    """Which part of the matching items the query wants."""

    limit: int | None
    start: Mapping[str, Any] | None
    forward: bool

    def of(self, keys: list[str], sort_key: str) -> list[str]:
        """Those of the keys that can be on the page, and one more.

        By that one moto sees that another page follows.
        """
        if self.start:
            last = self.start[sort_key]["S"]
            keys = [key for key in keys if (key > last if self.forward else key < last)]
        if not self.limit or self.limit >= len(keys):
            return keys
        return sorted(keys, reverse=not self.forward)[: self.limit + 1]


def _of_partition(
    table: Any, hash_key: Any, comparison: str | None, values: Sequence[Any], page: _Page
) -> list[Any]:
    """The items of one partition that the sort key's condition lets through.

    Where the condition is a plain one, only those of the page.
    """
    rows: Mapping[Any, Any] = table.items.get(hash_key) or {}
    wanted = _condition(comparison, [value.value for value in values])
    if wanted is None or any(key.type != "S" for key in values):
        return list(rows.values())
    found = {}
    for key, item in rows.items():
        if key.type != "S":
            return list(rows.values())
        if wanted(key.value):
            found[key.value] = item
    return [found[key] for key in page.of(list(found), table.range_key_attr)]


def _condition(comparison: str | None, values: Sequence[str]) -> Callable[[str], bool] | None:
    """None for what moto shall judge alone."""
    if comparison == "BEGINS_WITH":
        return lambda key: key.startswith(values[0])
    if comparison == "BETWEEN":
        return lambda key: values[0] <= key <= values[1]
    return None if comparison else lambda key: True


def _of_index(table: Any, hash_keys: Mapping[str, Any]) -> list[Any]:
    """The items that have the index's hash key."""
    rows = table.items.values()
    items = [item for row in rows for item in row.values()] if table.range_key_attr else list(rows)
    for name, value in hash_keys.items():
        items = [
            item
            for item in items
            if (found := item.attrs.get(name))
            and found.value == value.value
            and found.type == value.type
        ]
    return items
