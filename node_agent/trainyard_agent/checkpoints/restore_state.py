"""From where a run is brought back, and how far that is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trainyard_agent.host.locations import Location
from trainyard_contracts.export_manifest import KeptLink

log = logging.getLogger(__name__)


class Lacking(Exception):
    """An object is not there as its list says."""


class Stopped(Exception):
    """The agent ends; the next submit begins again, with what is there."""


@dataclass(frozen=True)
class Remote:
    """One file as it lies in S3; `key` is as an export has it. `modified_ns`: 0 = not known."""

    key: str
    at: Location
    size: int
    sha256: str
    mode: int
    modified_ns: int = 0


@dataclass(frozen=True)
class Source:
    """What is brought: the newest list of the two."""

    kind: Literal["sync", "export"]
    at: datetime
    files: Sequence[Remote]
    links: Sequence[KeptLink]


@dataclass
class State:
    """What the threads of one restoring have in common."""

    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    total: int = 0
    done: int = 0
    skipped: list[str] = field(default_factory=list)

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def begin(self, size: int) -> None:
        """So many bytes are to be brought."""
        self.total = size

    def note(self, size: int) -> None:
        with self.lock:
            self.done += size

    def skip(self, what: str, why: object) -> None:
        log.warning("%s is not restored: %s", what, why)
        with self.lock:
            self.skipped.append(f"{what}: {why}"[:300])

    def words(self) -> str:
        if not self.total:
            return "its list is being read"
        return f"{self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB are there"
