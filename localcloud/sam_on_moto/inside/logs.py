"""Writes lines into moto's CloudWatch Logs from one thread, so that nobody who logs waits."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable
from typing import Any

from sam_on_moto.inside.place import ACCOUNT_ID, REGION

log = logging.getLogger(__name__)

#: A writer of logs is in the middle of something, so it need not wait for the log. What comes
#: within this pause is written together.
PAUSE_SECONDS = 0.05
Entry = tuple[str, str, int, list[str]]


class LogWriter:
    """A queue in front of CloudWatch Logs. Lines of one stream keep their order."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._known: set[tuple[str, str]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True, name="logs")

    def start(self) -> None:
        """Lines are written from now on, those first that came before."""
        self._thread.start()

    def write(self, group: str, stream: str, lines: list[str]) -> None:
        """Lines into a stream of a group; both are made when they are missing."""
        self._queue.put((group, stream, int(time.time() * 1000), lines))

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(2.0)

    def _run(self) -> None:
        while entry := self._queue.get():
            time.sleep(PAUSE_SECONDS)
            entries = [entry]
            while not self._queue.empty() and (entry := self._queue.get()):
                entries.append(entry)
            for (group, stream), events in by_stream(entries).items():
                try:
                    self._append(group, stream, events)
                except Exception:
                    log.exception("log lines for %s were lost", group)
            if entry is None:
                return

    def _append(self, group: str, stream: str, events: list[dict[str, Any]]) -> None:
        from moto.logs.models import logs_backends

        backend = logs_backends[ACCOUNT_ID][REGION]
        if (group, stream) not in self._known:
            if group not in backend.groups:
                backend.create_log_group(group, {})
            backend.ensure_log_stream(group, stream)
            self._known.add((group, stream))
        backend.put_log_events(group, stream, events)


def by_stream(entries: Iterable[Entry]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for group, stream, at, lines in entries:
        events = found.setdefault((group, stream), [])
        # CloudWatch refuses a batch whose times go back. Those of two threads may, and those of a
        # clock that is set.
        time_ms = max(at, events[-1]["timestamp"]) if events else at
        events.extend({"timestamp": time_ms, "message": line} for line in lines)
    return found
