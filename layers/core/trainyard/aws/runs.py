"""Runs, their facts, timeline and checkpoints in the table (layout: `table.py`)."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime

from trainyard.aws import listing, notices, page_tokens
from trainyard.aws.facts import fact_item, names_item, read_facts, written
from trainyard.aws.items import Item, document, number, pack, readable, record_of, text
from trainyard.aws.run_items import (
    ACTIVE,
    CHILD,
    ENDED,
    checkpoint_of,
    child_item,
    key_item,
    key_pk,
    line_item,
    marker_item,
    named_cluster,
    pk_of,
    run_item,
    run_of,
)
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.domain.notices import of_line
from trainyard.domain.records import TERMINAL, Checkpoint, Run, TimelineEntry
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page
from trainyard_contracts import places
from trainyard_contracts.events import Fact

#: One write each, in any order: the details are those of the whole checkpoint, the verdict is the
#: later one.
_WHOLE = "SET doc = :doc, verdict = if_not_exists(verdict, :verdict)"
_PRUNED = "SET doc = if_not_exists(doc, :doc), verdict = :verdict"
#: A Lambda function answers with 6 MB at most, in which a page's text is escaped once more.
_PAGE_BYTES = 2 * 1024 * 1024
#: A transaction takes 100 writes: the run, and two for each line.
_LINES_AT_ONCE = 49


class TableRuns:
    """The port `Runs` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def create(self, run: Run, *, idempotency_key: str | None, body_hash: str) -> Run:
        children = [self._table.always(child_item(one, run.id)) for one in run.spec.after]
        if idempotency_key is None:
            failed = self._table.transact(self._table.new(run_item(run)), *children)
            # Our own write, whose answer was lost: an id is never made for two runs.
            return run if not failed else self.get(run.id)
        key = key_item(run, idempotency_key, body_hash)
        now = {":now": number(int(run.created_at.timestamp()))}
        failed = self._table.transact(
            self._table.new(run_item(run)),
            self._table.new(key, unless="expiresAt < :now", values=now),
            *children,
        )
        if not failed:
            return run
        known = self.by_key(idempotency_key, body_hash, at=run.created_at)
        if known is None:
            raise errors.RetryableError("the Idempotency-Key expired at this very moment")
        return known

    def by_key(self, idempotency_key: str, body_hash: str, *, at: datetime) -> Run | None:
        key = self._table.get(key_pk(idempotency_key), "key")
        if key is None or int(key["expiresAt"]["N"]) < int(
            at.timestamp()
        ):  # DynamoDB takes its time to delete what expired
            return None
        if key["bodyHash"]["S"] != body_hash:
            field = errors.FieldError(
                "idempotency-key",
                "was used with another body within 24 hours; use a new one for a new request",
            )
            raise errors.IdempotencyConflict(
                "this Idempotency-Key was used within 24 hours with another body", errors=[field]
            )
        return self.get(key["runId"]["S"])

    def get(self, run_id: str) -> Run:
        item = self._table.get(pk_of(run_id), "run")
        if item is None:
            raise errors.RunNotFound.of(run_id)
        return run_of(item)

    def children(self, run_id: str) -> builtins.list[str]:
        items = self._table.query(pk_of(run_id), CHILD)
        return [item["sk"]["S"].removeprefix(CHILD) for item in items]

    def put(self, run: Run, lines: Sequence[TimelineEntry] = ()) -> Run:
        after = run.changed(version=run.version + 1, updated_at=self._clock.now())
        for line in lines[_LINES_AT_ONCE:]:
            self.note(run.id, line)
        if not self._put(run_item(after), run, lines[:_LINES_AT_ONCE]):
            raise errors.ConflictError(
                f"run {run.id} was changed by someone else since version {run.version}"
            )
        return after

    def _put(self, item: Item, run: Run, lines: Sequence[TimelineEntry]) -> bool:
        """Write run and lines at once, so that a decision that came too late leaves no line.

        Lines that are there already are left out.
        """
        condition, values = "version = :before", {":before": number(run.version)}
        while lines:
            written = [
                write
                for line in lines
                for write in (
                    self._table.new(marker_item(run.id, line)),
                    self._table.always(line_item(run.id, line)),
                )
            ]
            failed = self._table.transact(
                self._table.only_if(item, condition=condition, values=values), *written
            )
            if 0 in failed or not failed:
                return not failed
            lines = [line for position, line in enumerate(lines) if 1 + 2 * position not in failed]
        return self._table.put(item, condition=condition, values=values)

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Run]:
        statuses = wanted.statuses
        partitions = [
            *([ACTIVE] if not statuses or statuses - TERMINAL else []),
            *([ENDED] if not statuses or statuses & TERMINAL else []),
        ]
        return listing.search(self._table, partitions, run_of, wanted, limit=limit, token=token)

    def beginning(self, prefix: str, *, at_most: int) -> builtins.list[str]:
        found = [
            pk.removeprefix(pk_of(""))
            for partition in (ACTIVE, ENDED)
            for pk in self._table.ids(partition, pk_of(prefix), at_most=at_most)
        ]
        return sorted(set(found), reverse=True)[:at_most]

    def active(self) -> builtins.list[Run]:
        listed = self._table.listed(ACTIVE)
        return [run for _, run in readable(run_of, listed) if not run.terminal]

    def on_cluster(self, cluster_name: str) -> builtins.list[Run]:
        return [run for run in self.active() if run.cluster_name == cluster_name]

    def unreadable_on(self, cluster_name: str) -> builtins.list[str]:
        listed = self._table.listed(ACTIVE)
        read = {position for position, _ in readable(run_of, listed)}
        return [
            item["pk"]["S"].removeprefix(pk_of(""))
            for position, item in listed
            if position not in read and named_cluster(item) in (None, cluster_name)
        ]

    def record(self, run_id: str, fact: Fact, message: str) -> bool:
        pk, (stored, names) = pk_of(run_id), written(fact)
        line = TimelineEntry(
            id=fact.id,
            at=fact.at,
            kind="fact",
            type=stored.type,
            message=message,
            attempt=stored.attempt,
            data=stored.data,
        )
        beside = [] if names is None else [self._table.always(names_item(pk, fact.id, names))]
        return not self._table.transact(
            self._table.new({**fact_item(pk, stored), **notices.attributes(of_line(run_id, line))}),
            self._table.always(line_item(run_id, line)),
            *beside,
        )

    def facts(self, run_id: str, attempt: int | None = None) -> builtins.list[Fact]:
        return read_facts(self._table, pk_of(run_id), attempt)

    def note(self, run_id: str, entry: TimelineEntry) -> None:
        self._table.transact(
            self._table.new(marker_item(run_id, entry)),
            self._table.always(line_item(run_id, entry)),
        )

    def timeline(self, run_id: str, *, limit: int, token: str | None) -> Page[TimelineEntry]:
        items, more = self._page(run_id, "line#", limit, token, newest_first=False)
        return Page([record_of(TimelineEntry, item) for item in items], more)

    def put_checkpoint(self, run_id: str, checkpoint: Checkpoint) -> None:
        pk, sk = pk_of(run_id), f"ckpt#{checkpoint.step:012d}#{checkpoint.attempt:06d}"
        if not places.is_own_checkpoint(checkpoint.path):
            sk += f"#{checkpoint.path}"  # several names may be of one step
        if checkpoint.status == "rejected":
            self._table.put(
                {
                    "pk": text(pk),
                    "sk": text(sk),
                    "doc": pack(checkpoint),
                    "verdict": text("rejected"),
                }
            )
            return
        change = _WHOLE if checkpoint.status == "whole" else _PRUNED
        values = {
            ":doc": pack(checkpoint),
            ":verdict": text(checkpoint.status),
            ":rejected": text("rejected"),
        }
        self._table.update(
            pk,
            sk,
            change,
            condition="attribute_not_exists(pk) OR verdict <> :rejected",
            values=values,
        )

    def checkpoints(self, run_id: str, *, limit: int, token: str | None) -> Page[Checkpoint]:
        items, more = self._page(run_id, "ckpt#", limit, token, newest_first=True)
        return Page([checkpoint_of(item) for item in items], more)

    def _page(
        self, run_id: str, prefix: str, limit: int, token: str | None, *, newest_first: bool
    ) -> tuple[builtins.list[Item], str | None]:
        query = (prefix, run_id)
        after = page_tokens.decode(query, token, prefix=prefix)
        items = self._table.query(
            pk_of(run_id), prefix, after=after, newest_first=newest_first, limit=limit + 1
        )
        count = min(limit, _count_within(items, _PAGE_BYTES))
        more = (
            page_tokens.encode(query, items[count - 1]["sk"]["S"]) if len(items) > count else None
        )
        return items[:count], more


def _count_within(items: Sequence[Item], most: int) -> int:
    """How many of the first items have documents of so many bytes together; one at least."""
    filled = 0
    for count, item in enumerate(items):
        filled += len(document(item))
        if count and filled > most:
            return count
    return len(items)
