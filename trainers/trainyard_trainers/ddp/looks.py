"""How often a rank looks whether the others are done before it sleeps: that depends on what the
cores have to do besides, which the looking itself shows.
"""

from __future__ import annotations

#: With a core of its own a rank looks again and again; where ranks share cores it soon sleeps, for
#: the scheduler gives those who slept the next turn (sched_yield alone was slower with eight ranks
#: on two cores).
ALONE, SHARED = 400, 4
#: On a core that nobody else wants, ALONE looks take a fifth of this. If they take longer, another
#: process ran in between, and the rank for which we wait may be the one that got no turn.
_BUSY_SECONDS = 0.002
#: So many exchanges later it is tried again: the load may be gone.
_AGAIN = 500


class Looks:
    """Counts for one rank of so many on so many cores."""

    def __init__(self, ranks: int, cores: int) -> None:
        self._most = ALONE if ranks <= cores else SHARED
        self._left = 0
        self.count = self._most

    def took(self, seconds: float) -> None:
        """Looking has taken so long."""
        if seconds > _BUSY_SECONDS:
            self.count, self._left = SHARED, _AGAIN
        elif self._left:
            self._left -= 1
            if not self._left:
                self.count = self._most
