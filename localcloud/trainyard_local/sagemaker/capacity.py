"""Of which instance types there is none: by a setting for good, by a fault for a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable


class Capacity:
    """Anything that is not lacking is there."""

    def __init__(
        self, never: Iterable[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._until = dict.fromkeys(never, float("inf"))
        self._clock = clock

    def lack(self, kind: str, seconds: float | None) -> None:
        """From now on there is none of this type, for so long or for good."""
        self._until[kind] = float("inf") if seconds is None else self._clock() + seconds

    def restore(self, kind: str) -> None:
        """There is enough again."""
        self._until.pop(kind, None)

    def there(self, kind: str) -> bool:
        """Whether there is any."""
        return self._until.get(kind, 0.0) <= self._clock()
