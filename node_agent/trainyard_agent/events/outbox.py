"""Events on their way to the bus: sent at once, retried for ever.

Each is kept in SQLite until EventBridge has taken it.
"""

from __future__ import annotations

import json
import logging
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from trainyard_agent.events.pending import LAST_BACKOFF_SECONDS, Row, backoff, choose
from trainyard_agent.events.store import SAMPLE_CAP_BYTES, Store
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.signed_http import SignedHttp
from trainyard_contracts.event_bases import SOURCE
from trainyard_contracts.signatures import signed

log = logging.getLogger(__name__)


class Sender(threading.Thread):
    """Sends what the outbox holds, beginning the moment something is committed."""

    def __init__(
        self,
        path: Path,
        bus: str,
        region: str,
        key: bytes,
        *,
        sample_cap_bytes: int = SAMPLE_CAP_BYTES,
    ) -> None:
        super().__init__(name="outbox", daemon=True)
        self._path, self._bus, self._region, self._key = path, bus, region, key
        self._cap = sample_cap_bytes
        self._wake, self._ending = (
            threading.Event(),
            threading.Event(),
        )  # Thread itself has a method _stop
        self._put: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = self._put_events
        self._http: SignedHttp | None = None
        #: Rows that the bus has and a full disk did not let us forget: not sent again, and in
        #: nobody's way.
        self._taken: set[int] = set()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Stop after the batch on its way; what is left is sent after the next start."""
        self._ending.set()
        self._wake.set()

    def run(self) -> None:
        store = Store(self._path, sample_cap_bytes=self._cap)
        failures = 0
        while not self._ending.is_set():
            self._wake.clear()
            try:
                sent = self.send_once(store)
                failures = 0
            except Unreachable as error:
                failures += 1
                log.warning("the event bus is unreachable (try %d): %s", failures, error)
                self._ending.wait(backoff(failures - 1, random.random()))
                continue
            except sqlite3.OperationalError as error:
                log.error("the outbox cannot be read or written: %s", error)
                self._ending.wait(1.0)
                continue
            if not sent:
                self._wake.wait(self._pause(store))
        store.close()

    @staticmethod
    def _pause(store: Store) -> float:
        """Until something is due; at rest the sender only wakes when something is committed."""
        row = store.connection.execute("SELECT MIN(due) FROM outbox").fetchone()
        return (
            3600.0 if row[0] is None else max(0.05, min(LAST_BACKOFF_SECONDS, row[0] - time.time()))
        )

    def send_once(self, store: Store) -> int:
        """Send one batch; returns how many entries were tried.

        Raises Unreachable when nothing was taken.
        """
        query = (
            "SELECT seq, kind, run, body, size, tries, due FROM outbox ORDER BY sample, seq LIMIT ?"
        )
        rows = [
            Row(*row)
            for row in store.connection.execute(query, (200 + len(self._taken),))
            if row[0] not in self._taken
        ]
        batch = choose(rows, time.time())
        if not batch:
            self._forget_taken(store)
            return 0
        self._settle(store, batch, self._put_each_if_refused([self._entry(row) for row in batch]))
        return len(batch)

    def _entry(self, row: Row) -> dict[str, Any]:
        return {
            "Source": SOURCE,
            "DetailType": row.kind,
            "Detail": signed(row.kind, row.body, self._key),
            "EventBusName": self._bus,
        }

    def _put_each_if_refused(self, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """EventBridge refuses a whole request for one bad entry.

        So a refused batch is sent entry by entry.
        """
        try:
            return self._put(entries)
        except Refused as error:
            if len(entries) > 1:
                return [
                    result for entry in entries for result in self._put_each_if_refused([entry])
                ]
            return [{"ErrorCode": "Refused", "ErrorMessage": str(error)}]

    def _settle(self, store: Store, batch: list[Row], results: list[dict[str, Any]]) -> None:
        """Forget what was taken; give the rest a later time."""
        now, refused = time.time(), []
        for row, result in zip(batch, results, strict=True):
            if "ErrorCode" in result:
                log.warning(
                    "the bus refused a %s: %s %s",
                    row.kind,
                    result["ErrorCode"],
                    result.get("ErrorMessage", ""),
                )
                refused.append((now + backoff(row.tries, random.random()), row.seq))
            else:
                self._taken.add(row.seq)
        if refused:
            store.apply_now(
                lambda db: db.executemany(
                    "UPDATE outbox SET tries = tries + 1, due = ? WHERE seq = ?", refused
                )
            )
        self._forget_taken(store)

    def _forget_taken(self, store: Store) -> None:
        if not self._taken:
            return
        doomed = [(seq,) for seq in self._taken]

        def forget(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM outbox WHERE seq = ?", doomed)
            store.trim_samples()

        store.apply_now(forget)
        self._taken.clear()

    def _put_events(self, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._http is None:
            self._http = SignedHttp("events", self._region)
        body = json.dumps({"Entries": entries}).encode()
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": "AWSEvents.PutEvents",
        }
        answer = self._http.request(
            "POST", "/", headers=headers, body=body, payload_sha256=sha256(body).hexdigest()
        )
        if answer.status == 404:
            raise Unreachable("the event bus does not exist (yet)")
        try:
            results = list(json.loads(answer.body)["Entries"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unreachable(
                f"PutEvents answered something else than its results: {error!r}"
            ) from error
        if len(results) != len(entries):
            raise Unreachable(
                f"PutEvents answered {len(results)} results for {len(entries)} entries"
            )
        return results
