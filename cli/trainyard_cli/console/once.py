"""A change that the page sends twice is made once, also where the API takes no idempotency key.

The page gives each question that it asks a key of its own. A second click, or a browser that sends
again after a line broke, comes with the same key: it waits for the first answer and gets that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import httpx

#: One person clicks them, one by one.
MOST_KEPT = 256


@dataclass
class _Made:
    """A change, while it is made and afterwards."""

    what: tuple[str, str, bytes]
    lock: Lock = field(default_factory=Lock)
    answer: httpx.Response | None = None


class OtherChange(Exception):
    """The key was used for something else."""


class Once:
    """The newest changes by their keys. What the API did not answer to may be tried again."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._made: OrderedDict[str, _Made] = OrderedDict()
        self._lock = Lock()

    def made(
        self, key: str, what: tuple[str, str, bytes], make: Callable[[], httpx.Response]
    ) -> httpx.Response:
        """The answer to this change, which `make` makes unless it is known.

        Raises OtherChange, and what `make` raises.
        """
        with self._lock:
            one = self._made.setdefault(key, _Made(what))
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        if one.what != what:
            raise OtherChange
        with one.lock:
            if one.answer is None:
                answer = make()
                # The API's own trouble: it says that the same may be asked again.
                if answer.status_code == 429 or answer.status_code >= 500:
                    return answer
                one.answer = answer
            return one.answer
