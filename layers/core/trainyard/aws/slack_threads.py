"""Threads of runs in Slack, in the table (layout: `table.py`)."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.aws.items import Item, number, pack, readable, record_of, stamp, text
from trainyard.aws.table import Table
from trainyard.domain.errors import ConflictError
from trainyard.domain.thread_records import RunThread, SlackDigest, SlackPause
from trainyard.outside.clock import Clock

_OPEN = "slack-threads"
_SORT_KEY = "thread"
_PAUSE = ("slack#pause", "pause")
_DIGEST = ("slack#digest", "digest")
#: A thread that is closed is kept so long, so that a late event finds it.
KEPT = timedelta(days=90)
_ANY = "attribute_exists(pk) OR attribute_not_exists(pk)"
_BEFORE = "version = :before"


class TableThreads:
    """The port of threads: `wakes` counts events, `version` counts what was shown."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def wake(self, run_id: str, channel: str) -> None:
        now = self._clock.now()
        new = RunThread(run_id=run_id, channel=channel, shown_at=now)
        expression = (
            "SET doc = if_not_exists(doc, :new), version = if_not_exists(version, :zero), "
            "gsi1pk = :open, gsi1sk = if_not_exists(gsi1sk, :at) "
            "REMOVE expiresAt ADD wakes :one"
        )
        values = {
            ":new": pack(new),
            ":zero": number(0),
            ":open": text(_OPEN),
            ":at": text(_order(now, run_id)),
            ":one": number(1),
        }
        self._table.update(_pk(run_id), _SORT_KEY, expression, condition=_ANY, values=values)

    def get(self, run_id: str) -> RunThread | None:
        item = self._table.get(_pk(run_id), _SORT_KEY)
        return None if item is None else _read(item)

    def open_ones(self, at_most: int) -> list[RunThread]:
        items = self._table.indexed(_OPEN, at_most=at_most)
        listed = [(item["gsi1sk"]["S"], item) for item in items if "gsi1pk" in item]
        return [thread for _, thread in readable(_read, listed)]

    def put(self, thread: RunThread) -> RunThread:
        after = thread.changed(version=thread.version + 1)
        self._write(
            thread,
            "SET doc = :doc, version = :after, gsi1sk = :at",
            {
                ":doc": pack(after),
                ":after": number(after.version),
                ":at": text(_order(after.shown_at, after.run_id)),
            },
        )
        return after

    def _write(self, thread: RunThread, expression: str, values: Item) -> None:
        values = {**values, ":before": number(thread.version)}
        if not self._table.update(
            _pk(thread.run_id), _SORT_KEY, expression, condition=_BEFORE, values=values
        ):
            raise ConflictError(f"the thread of {thread.run_id} was changed by someone else")

    def close(self, thread: RunThread) -> bool:
        expires = int((self._clock.now() + KEPT).timestamp())
        return self._table.update(
            _pk(thread.run_id),
            _SORT_KEY,
            "SET expiresAt = :expires REMOVE gsi1pk, gsi1sk",
            condition=f"{_BEFORE} AND wakes = :wakes",
            values={
                ":expires": number(expires),
                ":before": number(thread.version),
                ":wakes": number(thread.wakes),
            },
        )

    def pause(self) -> SlackPause | None:
        item = self._table.get(*_PAUSE)
        return None if item is None else record_of(SlackPause, item)

    def put_pause(self, pause: SlackPause) -> None:
        pk, sk = _PAUSE
        self._table.put({"pk": text(pk), "sk": text(sk), "doc": pack(pause)})

    def digest(self) -> SlackDigest | None:
        item = self._table.get(*_DIGEST)
        return None if item is None else record_of(SlackDigest, item)

    def put_digest(self, digest: SlackDigest) -> SlackDigest:
        pk, sk = _DIGEST
        after = digest.changed(version=digest.version + 1)
        item = {
            "pk": text(pk),
            "sk": text(sk),
            "doc": pack(after),
            "version": number(after.version),
        }
        condition = _BEFORE if digest.version else "attribute_not_exists(pk)"
        values = {":before": number(digest.version)} if digest.version else None
        if not self._table.put(item, condition=condition, values=values):
            raise ConflictError("the digest was changed by someone else")
        return after


def _pk(run_id: str) -> str:
    return f"slack#run-{run_id}"


def _order(at: datetime, run_id: str) -> str:
    return f"{stamp(at)}#{run_id}"


def _read(item: Item) -> RunThread:
    """What the item counts by itself is newer than the document."""
    stored = record_of(RunThread, item)
    return stored.changed(
        version=int(item["version"]["N"]), wakes=int(item.get("wakes", number(0))["N"])
    )
