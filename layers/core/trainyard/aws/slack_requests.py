"""Slack's requests that were taken in hand, in the table (layout: `table.py`)."""

from __future__ import annotations

from trainyard.aws.items import number, text
from trainyard.aws.table import Table
from trainyard.outside.clock import Clock

#: Who took one has this long: more than the function's time, less than until it is repeated.
LEASE_SECONDS = 45
#: A request that was answered stays so.
KEPT_SECONDS = 86_400


class TableClaims:
    """Each request is one item: until when it is in hand; far away once it is answered."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def take(self, request_id: str) -> bool:
        return self._put(
            request_id,
            LEASE_SECONDS,
            condition="attribute_not_exists(pk) OR inHandUntil <= :now",
        )

    def settle(self, request_id: str, outcome: str = "") -> None:
        self._put(request_id, KEPT_SECONDS, outcome=outcome)

    def outcome(self, request_id: str) -> str:
        item = self._table.get(*_key(request_id)) or {}
        return str(item.get("outcome", {}).get("S", ""))

    def give_back(self, request_id: str) -> None:
        self._put(request_id, 0)

    def hold(self, request_id: str, seconds: int) -> None:
        self._put(request_id, seconds)

    def _put(
        self, request_id: str, seconds: int, *, condition: str | None = None, outcome: str = ""
    ) -> bool:
        now = int(self._clock.now().timestamp())
        pk, sk = _key(request_id)
        item = {
            "pk": text(pk),
            "sk": text(sk),
            **({"outcome": text(outcome)} if outcome else {}),
            "inHandUntil": number(now + seconds),
            "expiresAt": number(now + KEPT_SECONDS),
        }
        values = {":now": number(now)} if condition else None
        return self._table.put(item, condition=condition, values=values)


def _key(request_id: str) -> tuple[str, str]:
    return f"slack#{request_id}", "request"
