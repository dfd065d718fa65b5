"""Events that wait to be sent, and which of them go together."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from trainyard_contracts.event_bases import AgentEvent

BATCH_ENTRIES = 10
BATCH_BYTES = 256 * 1024 - 4096
# EventBridge counts source, detail-type and bus name with the detail; the signature is added when
# it is sent.
ENTRY_OVERHEAD = 512
FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 0.2, 30.0
#: An entry the bus itself refuses this often no longer holds back the later events of its run; it
#: is still tried.
PATIENT_TRIES = 8


@dataclass(frozen=True)
class Row:
    seq: int
    kind: str
    run: str
    body: str
    size: int
    tries: int
    due: float


def add(connection: sqlite3.Connection, event: AgentEvent, *, sample: bool = False) -> None:
    """Put an event into the outbox, inside the caller's transaction.

    The same event id twice is one event.
    """
    body = event.model_dump_json(by_alias=True)
    run = getattr(event, "run_id", None) or ""
    values = (
        event.id,
        type(event).__name__,
        run,
        int(sample),
        body,
        len(body.encode()) + ENTRY_OVERHEAD,
    )
    connection.execute(
        "INSERT OR IGNORE INTO outbox(id, kind, run, sample, body, size) VALUES(?, ?, ?, ?, ?, ?)",
        values,
    )


def choose(rows: Sequence[Row], now: float) -> list[Row]:
    """The next batch, in order and within EventBridge's limits.

    One run's later events never come before its earlier ones.
    """
    batch: list[Row] = []
    size, waiting = 0, set[str]()
    for row in rows:
        if row.run and row.run in waiting:
            continue
        if row.due > now:
            if row.tries < PATIENT_TRIES:
                waiting.add(row.run)
            continue
        if len(batch) == BATCH_ENTRIES or (batch and size + row.size > BATCH_BYTES):
            break
        batch.append(row)
        size += row.size
    return batch


def backoff(tries: int, chance: float) -> float:
    """Seconds until the next try, with full jitter; `chance` in 0 to 1."""
    return min(LAST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * float(2 ** min(tries, 10))) * (
        0.5 + chance / 2
    )
