"""How far a copy is, and what stops it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from trainyard_contracts.amounts import size


class Stopped(Exception):
    """The agent ends: what is there is taken up by the next one."""


class Changed(Exception):
    """An object is no longer what was listed."""


@dataclass
class Progress:
    """What the threads of one copy have in common."""

    stop: threading.Event = field(default_factory=threading.Event)
    began: float = field(default_factory=time.monotonic)
    bytes: int = 0
    have: int = 0
    waits_for: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def expect(self, size: int) -> None:
        """So many bytes are to be there in the end."""
        self.bytes = size

    def add(self, size: int) -> None:
        with self._lock:
            self.have += size

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def wait(self, why: str, seconds: float = 1.0) -> None:
        """Raises Stopped."""
        self.waits_for = why
        self.stop.wait(seconds)
        self.check()
        self.waits_for = ""

    def words(self) -> str:
        if not self.bytes:
            return f"the objects are being listed, for {self.seconds:.0f} s"
        there = f"{size(self.have)} of {size(self.bytes)}"
        return f"{there} are there after {self.seconds:.0f} s"
