"""The agent's SQLite file: a change of state and the events that report it are one transaction, so neither is ever lost alone."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS outbox(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, run TEXT NOT NULL, sample INTEGER NOT NULL,
    body TEXT NOT NULL, size INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS outbox_sample ON outbox(sample, seq);
CREATE TABLE IF NOT EXISTS attempts(
    run TEXT NOT NULL, attempt INTEGER NOT NULL, state TEXT NOT NULL, bundle TEXT NOT NULL, job TEXT NOT NULL DEFAULT '',
    nodes TEXT NOT NULL DEFAULT '[]', stepped INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(run, attempt));
CREATE TABLE IF NOT EXISTS cancels(run TEXT PRIMARY KEY, attempt INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS nodes(node TEXT PRIMARY KEY, state TEXT NOT NULL, instance TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS verdicts(
    node TEXT NOT NULL, name TEXT NOT NULL, severity TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY(node, name));
CREATE TABLE IF NOT EXISTS checkpoints(
    run TEXT NOT NULL, path TEXT NOT NULL, step INTEGER NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL, signature TEXT NOT NULL,
    PRIMARY KEY(run, path));
CREATE TABLE IF NOT EXISTS exports(
    id TEXT PRIMARY KEY, run TEXT NOT NULL, destination TEXT NOT NULL, checkpoints TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    manifest TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS flags(name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
#: A file that is given up when the disk is full, so that changes of state still find room.
RESERVE_BYTES = 2 * 1024 * 1024
#: All samples together never take more than this; the oldest go first. Changes of state are not bounded.
SAMPLE_CAP_BYTES = 8 * 1024 * 1024

Change = Callable[[sqlite3.Connection], object]


class Store:
    """One connection to the file, for one thread. Writers in other threads open their own."""

    def __init__(self, path: Path, *, sample_cap_bytes: int = SAMPLE_CAP_BYTES) -> None:
        self.path = path
        self._cap = sample_cap_bytes
        self._reserve = path.with_name("reserve")
        self._held: list[Change] = []
        self.on_commit: Callable[[], None] = lambda: None
        self.connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        self.connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-512;" + SCHEMA)
        path.chmod(0o600)
        self._refill_reserve()

    def close(self) -> None:
        self.connection.close()

    def apply(self, change: Change) -> bool:
        """Commit a change; where the disk is full, make room, and hold what still does not fit in memory, in order.

        Returns whether it is on disk. What is held is written by the next `apply` or `flush_held`.
        """
        self._held.append(change)
        return self.flush_held()

    def apply_now(self, change: Change) -> None:
        """Commit a change or raise sqlite3.OperationalError: for what must not happen unless it is on disk."""
        if not self.flush_held():
            raise sqlite3.OperationalError("database or disk is full")
        self._commit(change)
        self.on_commit()

    def flush_held(self) -> bool:
        """Write what is held; False if there is still no room."""
        while self._held:
            try:
                self._commit(self._held[0])
            except sqlite3.OperationalError as error:
                log.error("the outbox cannot be written: %s; %d changes are held in memory", error, len(self._held))
                return False
            self._held.pop(0)
        self.on_commit()
        return True

    def _commit(self, change: Change) -> None:
        try:
            self._transact(change)
        except sqlite3.OperationalError as error:
            if not no_room(error):
                raise
            self.make_room()
            self._transact(change)

    def _transact(self, change: Change) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            change(self.connection)
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def make_room(self) -> None:
        """Give up the reserve, then every sample that waits: the newest heartbeat replaces them all."""
        self._reserve.unlink(missing_ok=True)
        try:
            dropped = self.connection.execute("DELETE FROM outbox WHERE sample = 1").rowcount
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._count_dropped(dropped)
            log.warning("the disk is full: %d samples dropped from the outbox", dropped)
        except sqlite3.OperationalError as error:
            log.error("the disk is full and samples cannot be dropped: %s", error)

    def trim_samples(self) -> None:
        """Drop the oldest samples above the cap."""
        rows = self.connection.execute("SELECT seq, size FROM outbox WHERE sample = 1 ORDER BY seq DESC").fetchall()
        total, doomed = 0, []
        for seq, size in rows:
            total += size
            if total > self._cap:
                doomed.append((seq,))
        if doomed:
            self.connection.executemany("DELETE FROM outbox WHERE seq = ?", doomed)
            self._count_dropped(len(doomed))

    def _count_dropped(self, count: int) -> None:
        if count:
            self.set_flag("dropped-samples", str(int(self.flag("dropped-samples") or 0) + count))

    def flag(self, name: str) -> str | None:
        row = self.connection.execute("SELECT value FROM flags WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_flag(self, name: str, value: str) -> None:
        self.connection.execute("INSERT OR REPLACE INTO flags VALUES(?, ?)", (name, value))

    def _refill_reserve(self) -> None:
        if self._reserve.exists():
            return
        try:
            self._reserve.write_bytes(b"\0" * RESERVE_BYTES)
        except OSError:
            self._reserve.unlink(missing_ok=True)


def no_room(error: sqlite3.OperationalError) -> bool:
    """SQLite says in three ways that a file cannot grow."""
    text = str(error)
    return "full" in text or "disk I/O error" in text or "readonly" in text
