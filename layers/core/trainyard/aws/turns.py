"""Turns on shared clusters in the table (layout: `table.py`)."""

from __future__ import annotations

from trainyard.aws.items import number, pack, record_of, text
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.turn_records import Turns

_SORT_KEY = "turns"


class TableTurns:
    """The port `Turns` on DynamoDB."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, cluster_name: str) -> Turns:
        item = self._table.get(_pk(cluster_name), _SORT_KEY)
        return Turns(cluster_name=cluster_name) if item is None else record_of(Turns, item)

    def put(self, turns: Turns) -> Turns:
        after = turns.changed(version=turns.version + 1)
        item = {
            "pk": text(_pk(turns.cluster_name)),
            "sk": text(_SORT_KEY),
            "doc": pack(after),
            "version": number(after.version),
        }
        if turns.version == 0:
            written = self._table.put(item, condition="attribute_not_exists(pk)")
        else:
            before = {":before": number(turns.version)}
            written = self._table.put(item, condition="version = :before", values=before)
        if not written:
            raise errors.ConflictError(
                f"the turns on cluster {turns.cluster_name} were changed by someone else since "
                f"version {turns.version}"
            )
        return after


def _pk(cluster_name: str) -> str:
    return f"cluster#{cluster_name}"
