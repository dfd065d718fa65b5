"""Task tokens of waiting machines in the table (layout: `table.py`)."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from trainyard.aws.items import Item, readable, stamp, text, unreadable, unstamp
from trainyard.aws.table import Table
from trainyard.domain.records import Wait, WaitKind

_INDEX = "waits"


class TableWaits:
    """The port `Waits` on DynamoDB."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def store(self, wait: Wait) -> bool:
        woken = {"wokenAt": text(stamp(wait.woken_at))} if wait.woken_at else {}
        item = {
            "pk": text(_pk(wait.owner)),
            "sk": text("wait"),
            "gsi1pk": text(_INDEX),
            "gsi1sk": text(wait.owner),
            "taskToken": text(wait.token),
            "waitKind": text(wait.kind),
            "waitsSince": text(stamp(wait.since)),
            **woken,
        }
        newest = "attribute_not_exists(pk) OR waitsSince <= :since OR taskToken = :token"
        return self._table.put(
            item,
            condition=newest,
            values={":since": item["waitsSince"], ":token": item["taskToken"]},
        )

    def get(self, owner: str) -> Wait | None:
        item = self._table.get(_pk(owner), "wait")
        return None if item is None else _wait(item)

    def mark_woken(self, owner: str, token: str, at: datetime) -> bool:
        values = {":token": text(token), ":at": text(stamp(at))}
        return self._table.update(
            _pk(owner), "wait", "SET wokenAt = :at", condition="taskToken = :token", values=values
        )

    def clear(self, owner: str, token: str) -> None:
        self._table.delete(
            _pk(owner), "wait", condition="taskToken = :token", values={":token": text(token)}
        )

    def all(self) -> list[Wait]:
        return [wait for _, wait in readable(_wait, self._table.listed(_INDEX))]


def _pk(owner: str) -> str:
    return f"wait#{owner}"


def _wait(item: Item) -> Wait:
    woken = item.get("wokenAt")
    try:
        return Wait(
            owner=item["pk"]["S"].removeprefix("wait#"),
            kind=cast(WaitKind, item["waitKind"]["S"]),
            token=item["taskToken"]["S"],
            since=unstamp(item["waitsSince"]["S"]),
            woken_at=unstamp(woken["S"]) if woken else None,
        )
    except (ValueError, KeyError) as error:
        raise unreadable(item, repr(error)) from error
