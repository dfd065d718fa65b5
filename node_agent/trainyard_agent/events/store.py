"""The agent's SQLite file.

A change of state and the events that report it are one transaction, so neither is ever lost alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from trainyard_agent.events.damage import no_room
from trainyard_agent.events.schema import SCHEMA

log = logging.getLogger(__name__)
#: The size of a file that is given up when the disk is full, so that changes of state still find
#: room.
RESERVE_BYTES = 2 * 1024 * 1024
# The file is made again when there is room for so many of its size.
PLENTY = 4
# Room inside SQLite's own files, which nobody who fills the disk can take: for some ten ends of
# attempts, logs and all.
OWN_BYTES = 256 * 1024
#: All samples together never take more than this; the oldest go first. Changes of state are not
#: bounded.
SAMPLE_CAP_BYTES = 24 * 1024 * 1024

Change = Callable[[sqlite3.Connection], object]


class Store:
    """One connection to the file, for one thread. Writers in other threads open their own."""

    def __init__(
        self,
        path: Path,
        *,
        sample_cap_bytes: int = SAMPLE_CAP_BYTES,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._cap = sample_cap_bytes
        self._reserve = path.with_name("reserve")
        self._held: list[Change] = []
        self._dropped = 0
        self._on_commit = on_commit
        self.connection = sqlite3.connect(
            path, timeout=5, isolation_level=None, check_same_thread=False
        )
        self._open()
        path.chmod(0o600)
        self.refill_reserve()

    def _open(self) -> None:
        """Make what is not there yet, if need be in the reserve's room.

        Raises sqlite3.OperationalError.
        """
        script = (
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-512;" + SCHEMA
        )
        try:
            self.connection.executescript(script)
        except sqlite3.OperationalError as error:
            if not no_room(error) or not self._reserve.exists():
                raise
            self._give_up_reserve()
            self.connection.executescript(script)
        self._claim_room()

    def _claim_room(self) -> None:
        """Claim pages of the file and blocks of its log.

        SQLite writes them in place from now on, also when the disk is full.
        """
        with contextlib.suppress(sqlite3.OperationalError):
            self._transact(
                lambda db: db.execute(
                    "INSERT OR REPLACE INTO flags VALUES('room', zeroblob(?))", (OWN_BYTES,)
                )
            )
            self._transact(lambda db: db.execute("DELETE FROM flags WHERE name = 'room'"))
            self.connection.execute("PRAGMA wal_checkpoint(RESTART)")

    def close(self) -> None:
        self.connection.close()

    def apply(self, change: Change) -> bool:
        """Commit a change; where the disk is full, make room.

        What still does not fit is held in memory, in order. Returns whether it is on disk. What is
        held is written by the next `apply` or `flush_held`.
        """
        self._held.append(change)
        return self.flush_held()

    def apply_sample(self, change: Change) -> None:
        """Commit a sample, or drop and count it.

        Samples never wait in memory and never take the reserve.
        """
        try:
            if not self.flush_held():
                raise sqlite3.OperationalError("changes of state wait for room")
            self._commit(change, reserve=False)
        except sqlite3.OperationalError as error:
            self._dropped += 1
            log.warning("a sample is dropped: %s", error)
        else:
            self._on_commit()

    def apply_now(self, change: Change) -> None:
        """Commit a change or raise sqlite3.OperationalError.

        For what must not happen unless it is on disk.
        """
        if not self.flush_held():
            raise sqlite3.OperationalError("database or disk is full")
        self._commit(change)
        self._on_commit()

    def flush_held(self) -> bool:
        """Write what is held; False if there is still no room."""
        while self._held:
            try:
                self._commit(self._held[0])
            except sqlite3.OperationalError as error:
                log.error(
                    "the outbox cannot be written: %s; %d changes are held in memory",
                    error,
                    len(self._held),
                )
                return False
            self._held.pop(0)
        self._on_commit()
        return True

    def _commit(self, change: Change, *, reserve: bool = True) -> None:
        """Commit; if the disk is full, first drop samples, then use the reserve.

        Raises sqlite3.OperationalError.
        """
        for make_room in (
            (self._drop_samples, self._give_up_reserve) if reserve else (self._drop_samples,)
        ):
            try:
                return self._transact(change)
            except sqlite3.OperationalError as error:
                if not no_room(error):
                    raise
                make_room()
        return self._transact(change)

    def _transact(self, change: Change) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            change(self.connection)
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def _drop_samples(self) -> None:
        """The newest heartbeat replaces every sample that waits.

        The log starts over in the blocks that it has.
        """
        try:
            self.connection.execute("PRAGMA wal_checkpoint(RESTART)")
            dropped = self.connection.execute("DELETE FROM outbox WHERE sample = 1").rowcount
            self._count_dropped(dropped)
            self.connection.execute("PRAGMA wal_checkpoint(RESTART)")
            log.warning("the disk is full: %d samples dropped from the outbox", dropped)
        except sqlite3.OperationalError as error:
            log.error("the disk is full and samples cannot be dropped: %s", error)

    def _give_up_reserve(self) -> None:
        with contextlib.suppress(OSError):
            self._reserve.unlink(missing_ok=True)
            log.warning("the disk is full: the reserve is given up")

    def refill_reserve(self) -> None:
        """Have the reserve again once there is plenty of room."""
        if self._reserve.exists():
            return
        try:
            disk = os.statvfs(self._reserve.parent)
            if disk.f_bavail * disk.f_frsize >= PLENTY * RESERVE_BYTES:
                self._reserve.write_bytes(b"\0" * RESERVE_BYTES)
        except OSError as error:
            log.warning("there is no room for the reserve: %s", error)
            self._give_up_reserve()

    @property
    def dropped_samples(self) -> int:
        """How many samples were dropped since the file was made."""
        return int(self.flag("dropped-samples") or 0) + self._dropped

    def trim_samples(self) -> None:
        """Drop the oldest samples above the cap."""
        rows = self.connection.execute(
            "SELECT seq, size FROM outbox WHERE sample = 1 ORDER BY seq DESC"
        ).fetchall()
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
