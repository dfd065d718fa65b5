"""Holds a sync to its share of the disk and the network, and stops it where that must be."""

from __future__ import annotations

import threading
import time

#: A sync reads and sends so much a second at most: training reads and writes there, too.
MOST_BYTES_A_SECOND = 128 * 1024**2


class Stopped(Exception):
    """An export begins, or the agent ends."""


class Rate:
    """What all passes of an agent may read and send together."""

    def __init__(self, bytes_a_second: float = MOST_BYTES_A_SECOND) -> None:
        self._rate, self._lock, self._free_at = bytes_a_second, threading.Lock(), time.monotonic()

    def wait_for(self, count: int) -> float:
        """How long to wait after so many bytes."""
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - 0.1) + count / self._rate
            return self._free_at - now


class Brake:
    """Holds a pass to its share of the disk and the network, and stops it where that must be."""

    def __init__(self, stop: threading.Event, rate: Rate) -> None:
        self.stop, self._rate = stop, rate

    def took(self, count: int) -> None:
        """So many bytes were read or sent. Raises Stopped."""
        wait = self._rate.wait_for(count)
        if self.stop.wait(wait) if wait > 0.01 else self.stop.is_set():
            raise Stopped
