"""One bar on stderr for what moves bytes; nothing without a terminal, and nothing with --json."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from .output import err

#: Hears how many bytes are done, and of how many.
Told = Callable[[int, int], None]


@contextmanager
def bar(words: str, *, quiet: bool = False) -> Iterator[Told]:
    """A bar that is moved from any thread."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    shown = not quiet and err.is_terminal
    with Progress(*columns, console=err, transient=True, disable=not shown) as progress:
        task = progress.add_task(words, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


class Counted:
    """Bytes of many transfers at once; one that begins again takes back what it had."""

    def __init__(self, told: Told) -> None:
        self._told, self._lock = told, threading.Lock()
        self._parts: dict[str, int] = {}
        self._total = 0

    def expect(self, more: int) -> None:
        """So many bytes more are to come."""
        with self._lock:
            self._total += more

    def remain(self, rest: int) -> None:
        """So many bytes are to come after those that are done."""
        with self._lock:
            self._total = sum(self._parts.values()) + rest

    def at(self, name: str, done: int) -> None:
        """So many bytes of this transfer are done."""
        with self._lock:
            self._parts[name] = done
            self._told(sum(self._parts.values()), self._total)
