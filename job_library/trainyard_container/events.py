"""The events of this container: made as the agent of a cluster makes them, signed with the
cluster's key, and sent with patience. Whatever the bus says, training goes on.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from trainyard_contracts.signatures import signed

from .surroundings import Surroundings

SOURCE = "trainyard.agent"
_FIRST_PAUSE, _LAST_PAUSE = 0.5, 30.0
#: PutEvents takes ten entries and 256 KB a request, names included.
_MOST_ENTRIES, _MOST_BYTES, _ENTRY_BYTES = 10, 240 * 1024, 512
_TICK = timedelta(microseconds=1)
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

Entry = dict[str, str]
#: PutEvents of these entries; the result of each. Raises whatever boto3 raises.
Put = Callable[[list[Entry]], list[dict[str, Any]]]


def ulid() -> str:
    """48 bits of milliseconds and 80 random bits, in 26 characters that sort by time."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def moment(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


class Events:
    """Sends in a thread; what is not sent when the container ends is lost with it."""

    def __init__(self, where: Surroundings, key: bytes, put: Put) -> None:
        self._where, self._key, self._put = where, key, put
        self._last = datetime.min.replace(tzinfo=timezone.utc)
        self._waiting: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._sending = 0
        threading.Thread(target=self._run, daemon=True, name="events").start()

    def send(self, kind: str, **fields: Any) -> None:
        """An event that happened now; fields as in JSON. Later ones have later times."""
        with self._changed:
            self._last = max(datetime.now(timezone.utc), self._last + _TICK)
            detail = {
                "id": ulid(),
                "at": moment(self._last),
                "clusterName": self._where.cluster,
                "clusterArn": self._where.cluster_arn,
                "node": self._where.host,
                **fields,
            }
            self._waiting.append(
                {
                    "Source": SOURCE,
                    "DetailType": kind,
                    "Detail": signed(kind, json.dumps(detail), self._key),
                    "EventBusName": self._where.event_bus,
                }
            )
            self._changed.notify_all()

    def of_attempt(self, kind: str, **fields: Any) -> None:
        """One about this run's attempt."""
        self.send(kind, runId=self._where.run_id, attempt=self._where.attempt, **fields)

    def flush(self, seconds: float) -> bool:
        """Wait until all are sent; False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._sending, seconds)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                batch = self._batch()
                self._sending = len(batch)
            left = self._sent(batch)
            with self._changed:
                self._waiting.extendleft(reversed(left))
                self._sending = 0
                self._changed.notify_all()
            if left:
                time.sleep(pause)
            pause = min(_LAST_PAUSE, 2 * pause) if left else _FIRST_PAUSE

    def _batch(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        while self._waiting and len(batch) < _MOST_ENTRIES:
            size += len(self._waiting[0]["Detail"].encode()) + _ENTRY_BYTES
            if batch and size > _MOST_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _sent(self, batch: list[Entry]) -> list[Entry]:
        """What was not taken."""
        try:
            results = self._put(batch)
        except Exception as error:  # noqa: BLE001 - boto3 raises many; none ends a training
            print(f"trainyard: events cannot be sent just now: {error}", flush=True)
            return batch
        pairs = zip(batch, results, strict=False)
        return [entry for entry, result in pairs if result.get("ErrorCode")]
