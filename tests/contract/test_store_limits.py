"""DynamoDB's limits: item size, pages, unprocessed keys, contended transactions, expiry."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.support.store_records import heartbeat, numbered_run

from trainyard.aws import table as table_module
from trainyard.aws.clock import SystemClock
from trainyard.aws.clusters import TableClusters
from trainyard.aws.facts import Stored
from trainyard.aws.items import COMPRESS_ABOVE_BYTES, pack, stamp, unpack, unstamp
from trainyard.aws.runs import TableRuns
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.records import Run, TimelineEntry

T0 = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


def test_small_documents_stay_readable_and_large_ones_are_compressed() -> None:
    small = Stored(id="a", type="T", at=T0, data={"ratio": 0.1, "n": None, "deep": {"x": [1, 2.5]}})
    large = small.model_copy(update={"data": {"text": "x" * COMPRESS_ABOVE_BYTES}})
    assert "S" in pack(small)
    assert len(pack(large)["B"]) < 1000
    assert [unpack(Stored, {"doc": pack(fact)}) for fact in (small, large)] == [small, large]


def test_times_sort_as_text_whatever_their_zone() -> None:
    east = T0.astimezone(timezone(timedelta(hours=9)))
    assert stamp(east) == stamp(T0)
    assert unstamp(stamp(T0 + timedelta(microseconds=1))) == T0 + timedelta(microseconds=1)
    assert stamp(T0) < stamp(T0 + timedelta(microseconds=1))


def test_a_timeline_of_more_than_one_megabyte_is_read_whole(table: Table) -> None:
    runs = TableRuns(table, SystemClock())
    made = runs.create(numbered_run(1), idempotency_key=None, body_hash="h")
    for number in range(12):
        entry = TimelineEntry(
            id=f"e{number:02d}",
            at=T0 + timedelta(seconds=number),
            kind="fact",
            type="T",
            message="x" * 120_000,
        )
        table.put({
            "pk": {"S": f"run#{made.id}"}, "sk": {"S": f"line#{stamp(entry.at)}#{entry.id}"},
            "doc": {"S": entry.model_dump_json(by_alias=True)},
        })  # fmt: skip
    assert len(runs.timeline(made.id, limit=50, token=None).items) == 12


def test_keys_and_heartbeats_expire(table: Table) -> None:
    TableRuns(table, SystemClock()).create(numbered_run(1), idempotency_key="key", body_hash="h")
    TableClusters(table, SystemClock()).put_heartbeat(heartbeat(1, 0))
    expiring = [
        item for item in table._dynamodb.scan(TableName=table.name)["Items"] if "expiresAt" in item
    ]
    assert sorted(item["pk"]["S"].split("#")[0] for item in expiring) == ["beat", "key"]


class Contended:
    """DynamoDB that reports a conflict with another transaction, so many times, then writes."""

    def __init__(self, conflicts: int, then: list[str] | None = None) -> None:
        self.conflicts, self.then, self.calls = conflicts, then, 0

    def transact_write_items(self, **_: Any) -> None:
        self.calls += 1
        reasons = ["TransactionConflict", "None"] if self.calls <= self.conflicts else self.then
        if reasons:
            reply = {
                "Error": {"Code": "TransactionCanceledException", "Message": ""},
                "CancellationReasons": [{"Code": r} for r in reasons],
            }
            raise ClientError(reply, "TransactWriteItems")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("then", "expected"), [(None, []), (["None", "ConditionalCheckFailed"], [1])]
)
def test_a_transaction_that_meets_another_is_repeated(
    monkeypatch: pytest.MonkeyPatch, then: list[str] | None, expected: list[int]
) -> None:
    monkeypatch.setattr(table_module.time, "sleep", lambda _seconds: None)
    assert Table(Contended(3, then), "t").transact({}, {}) == expected


def test_a_transaction_that_always_meets_others_is_retryable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_module.time, "sleep", lambda _seconds: None)
    with pytest.raises(errors.RetryableError):
        Table(Contended(99), "t").transact({}, {})


def test_a_throttled_transaction_is_said_to_be_throttled() -> None:
    class Throttled:
        def transact_write_items(self, **_: Any) -> None:
            raise ClientError(
                {"Error": {"Code": "ThrottlingException", "Message": "slow down"}},
                "TransactWriteItems",
            )

    with pytest.raises(errors.Throttled):
        Table(Throttled(), "t").transact({})


def test_unprocessed_keys_are_asked_for_again() -> None:
    class Sparing:
        """Answers one key a call."""

        def batch_get_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:
            first, *rest = RequestItems["t"]["Keys"]
            return {
                "Responses": {"t": [first]},
                "UnprocessedKeys": {"t": {"Keys": rest}} if rest else {},
            }

    keys = [(f"run#{number}", "run") for number in range(7)]
    assert [item["pk"]["S"] for item in Table(Sparing(), "t").batch_get(keys)] == [
        pk for pk, _ in keys
    ]


def test_a_run_written_by_a_newer_version_is_still_read() -> None:
    document = (
        numbered_run(1)
        .model_dump_json(by_alias=True)
        .replace('"generation":1', '"generation":1,"addedLater":{"x":1}', 1)
    )
    assert unpack(Run, {"doc": {"S": document}}) == numbered_run(1)
