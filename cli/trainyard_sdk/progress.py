"""How far a transfer is: counted here for all its parts, and drawn elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

#: Hears how many bytes are done, and of how many.
Told = Callable[[int, int], None]
#: Shows a transfer, which these words name, as long as it is under way.
Shown = Callable[[str], AbstractContextManager[Told]]


def unseen(_: str) -> AbstractContextManager[Told]:
    """For a transfer that nobody watches."""
    return nullcontext(lambda _done, _total: None)


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


def bytes_text(number: float | None) -> str:
    """A size in binary units."""
    if number is None:
        return "-"
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
