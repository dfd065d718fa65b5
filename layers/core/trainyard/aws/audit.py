"""The audit list in the table (layout: `table.py`): a partition a month, newest first."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from trainyard.aws import page_tokens
from trainyard.aws.items import Item, number, pack, record_of, stamp, text
from trainyard.aws.table import Table
from trainyard.domain.audit import AuditEntry, AuditQuery
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page

#: Entries that one page reads at most, whether it shows them or not.
MOST_READ = 2000
_SCAN = 200


class TableAudit:
    """The port `Audit` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock, keep: timedelta) -> None:
        self._table, self._clock, self._keep = table, clock, keep

    def add(self, entry: AuditEntry) -> bool:
        once = {"pk": text(f"audit-id#{entry.id}"), "sk": text("once"), **self._expiry(entry)}
        return not self._table.transact(
            self._table.new(once), self._table.always(self._item(entry))
        )

    def settle(self, entry: AuditEntry) -> None:
        self._table.put(self._item(entry), condition="attribute_exists(pk)")

    def list(self, query: AuditQuery, *, limit: int, token: str | None) -> Page[AuditEntry]:
        asked = (
            "audit",
            stamp(query.since),
            query.who or "",
            query.what or "",
            query.subject or "",
        )
        position = page_tokens.decode(asked, token)
        first = max(query.since, self._clock.now() - self._keep)
        found: list[AuditEntry] = []
        read = 0
        for month in _months(first, _month_of(position, self._clock.now())):
            after = position if position and position.startswith(month) else None
            for item in self._newest_first(month, after):
                position, read = item["sk"]["S"], read + 1
                entry = record_of(AuditEntry, item)
                if entry.at < first:
                    return Page(found)
                if query.wants(entry):
                    found.append(entry)
                if len(found) == limit or read == MOST_READ:
                    return Page(found, page_tokens.encode(asked, position))
        return Page(found)

    def _newest_first(self, month: str, after: str | None) -> Any:
        pk = f"audit#{month}"
        while True:
            items = self._table.query(pk, month, after=after, newest_first=True, limit=_SCAN)
            yield from items
            if len(items) < _SCAN:
                return
            after = items[-1]["sk"]["S"]

    def _item(self, entry: AuditEntry) -> Item:
        at = stamp(entry.at)
        return {
            "pk": text(f"audit#{at[:7]}"),
            "sk": text(f"{at}#{entry.id}"),
            "doc": pack(entry),
            **self._expiry(entry),
        }

    def _expiry(self, entry: AuditEntry) -> dict[str, Any]:
        return {"expiresAt": number(int((entry.at + self._keep).timestamp()))}


def _month_of(position: str | None, now: datetime) -> str:
    """Where reading begins: in the newest month that may have entries, or where it ended."""
    return position[:7] if position else stamp(now + timedelta(days=1))[:7]


def _months(first: datetime, newest: str) -> list[str]:
    """From the newest to the first, as '2026-11'."""
    oldest = stamp(first)[:7]
    year, month = int(newest[:4]), int(newest[5:7])
    found = []
    while (name := f"{year:04d}-{month:02d}") >= oldest:
        found.append(name)
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    return found
