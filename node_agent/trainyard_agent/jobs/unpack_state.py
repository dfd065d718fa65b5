"""How far an upload is on its way to the shared filesystem."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainyard_contracts.trees import TreeFile


class Torn(Exception):
    """Files whose bytes are not those of the tree, though each pack once was as it should be."""

    def __init__(self, files: Sequence[TreeFile]) -> None:
        super().__init__(files[0].path)
        self.files = files


class Stopped(Exception):
    """The agent ends: what is there is taken up by the next one."""


@dataclass
class Bringing:
    """An upload on its way; a submit that is repeated meanwhile waits for the same."""

    task: asyncio.Task[None]
    state: State


@dataclass
class State:
    """What the threads that unpack have in common."""

    stop: threading.Event = field(default_factory=threading.Event)
    bytes: int = 0
    done: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def begin(self, size: int) -> None:
        """So many bytes are to be brought."""
        self.bytes = size

    def note(self, sha256: str, size: int) -> None:
        """The pack is where it belongs."""
        self.done[sha256] = size

    def words(self) -> str:
        if not self.bytes:
            return "its tree is being read"
        return f"{sum(self.done.values()) / 1e6:.0f} of {self.bytes / 1e6:.0f} MB are there"
