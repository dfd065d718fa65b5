"""Makes moto's DynamoDB queries cheap: only the items that a query's page can have are looked at.

Stock moto sorts every item of the table for each query, and copies whole items for a page of an
index. There a page also ends by the size of the items, where DynamoDB counts what the index holds.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sam_on_moto.moto_patches.pinned import replace

_QUERY = (
    "self", "hash_key", "range_comparison", "range_objs", "limit", "exclusive_start_key",
    "scan_index_forward", "projection_expressions", "index_name", "consistent_read",
    "filter_expression", "hash_key_conditions", "range_key_conditions", "filter_kwargs",
)  # fmt: skip
_query = threading.local()
#: An attribute, and what its text must be.
_Judge = tuple[str, Callable[[str], bool]]
#: What an item of an index is sorted by, and the item.
_Placed = tuple[tuple[str, ...], Any]


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
            _query.items = _of_index(
                self,
                index,
                dict(named.get("hash_key_conditions") or []),
                _judges(named.get("range_key_conditions") or [], range_comparison),
                _Page(limit, start, forward is not False),
            )
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


def _judges(given: Sequence[Any], comparison: str | None) -> list[_Judge] | None:
    """The sort key's conditions, as moto has read them; None for what moto shall judge alone."""
    found = []
    for name, words, values in given:
        judge = _condition(words, [value.value for value in values])
        if judge is None or any(value.type != "S" for value in values):
            return None
        found.append((name, judge))
    return None if comparison and not found else found


def _of_index(
    table: Any,
    name: str,
    hash_keys: Mapping[str, Any],
    judges: Sequence[_Judge] | None,
    page: _Page,
) -> list[Any]:
    """The items that have the index's hash key; of a plain index only entries of the page."""
    rows = table.items.values()
    items = [item for row in rows for item in row.values()] if table.range_key_attr else list(rows)
    for key, value in hash_keys.items():
        items = [
            item
            for item in items
            if (found := item.attrs.get(key))
            and found.value == value.value
            and found.type == value.type
        ]
    index = next((one for one in table.all_indexes() if one.name == name), None)
    if index is None or judges is None:
        return items
    keys = _sort_keys(table, index)
    placed = _placed(keys, items, judges)
    if placed is None or not set(keys) <= set(page.start or keys):
        return items
    return list(_page_of_index(index, placed, page, keys))


def _sort_keys(table: Any, index: Any) -> list[str]:
    """DynamoDB promises the order of the index's own keys; moto takes the table's for the rest."""
    own = [key["AttributeName"] for key in index.schema if key["KeyType"] == "RANGE"]
    return [*own, *filter(None, (table.hash_key_attr, table.range_key_attr))]


def _placed(
    keys: Sequence[str], items: Sequence[Any], judges: Sequence[_Judge]
) -> list[_Placed] | None:
    """What the conditions let through, in ascending order; None where a key is no text."""
    found: list[_Placed] = []
    for item in items:
        attributes = [item.attrs.get(key) for key in keys]
        if any(one is None for one in attributes):
            continue  # an item without the index's keys is not in it
        if any(one.type != "S" for one in attributes):
            return None
        if all(judge(item.attrs[name].value) for name, judge in judges):
            found.append((tuple(one.value for one in attributes), item))
    return sorted(found, key=lambda one: one[0])


def _page_of_index(
    index: Any, placed: Sequence[_Placed], page: _Page, keys: Sequence[str]
) -> Iterator[Any]:
    """Entries beyond the page's start: as many as it can have, and one more, as moto wants it."""
    from moto.dynamodb.models.table import RESULT_SIZE_LIMIT

    start = page.start and tuple(page.start[key]["S"] for key in keys)
    size = count = 0
    for place, item in placed if page.forward else reversed(placed):
        if start and (place <= start if page.forward else place >= start):
            continue
        entry = _entry(index, item)
        yield entry
        size, count = size + entry.size(), count + 1
        if size > RESULT_SIZE_LIMIT or (page.limit and count > page.limit):
            return


def _entry(index: Any, item: Any) -> Any:
    """What the index holds of an item, as an item that is moto's to give away."""
    from moto.dynamodb.models.dynamo_type import LimitedSizeDict

    kind = _entry_class()
    entry = kind.__new__(kind)
    entry.hash_key, entry.range_key = item.hash_key, item.range_key
    held = LimitedSizeDict.__new__(LimitedSizeDict)
    for name in _held(index, item):  # without moto's look at the size for each attribute
        value = item.attrs[name]
        # moto changes maps and lists in place.
        dict.__setitem__(held, name, value if value.type in "SN" else copy.deepcopy(value))
    entry.attrs = held
    return entry


@cache
def _entry_class() -> Any:
    from moto.dynamodb.models.dynamo_type import Item

    class Entry(Item):  # type: ignore[misc]
        """Nobody else has it: it is neither copied nor cut once more."""

        def __deepcopy__(self, memo: dict[int, Any]) -> Any:
            return self

        def project(self, paths: list[list[str]]) -> Any:
            whole = {path[0] for path in paths if len(path) == 1}
            return self if whole >= set(self.attrs) else super().project(paths)

    return Entry


def _held(index: Any, item: Any) -> list[str]:
    """The attributes of the item that the index holds."""
    projection = index.projection or {}
    kind = projection.get("ProjectionType", "ALL")
    if kind == "ALL":
        return list(item.attrs)
    keys = [*index.table_key_attrs, *(key["AttributeName"] for key in index.schema)]
    more = projection.get("NonKeyAttributes", []) if kind == "INCLUDE" else []
    return [name for name in item.attrs if name in {*keys, *more}]
