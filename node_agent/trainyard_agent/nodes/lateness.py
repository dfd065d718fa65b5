"""How late this process is itself, and how late was of late what is heard of a node."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

#: A process that wakes so much later than it wanted had no processor meanwhile; less is usual.
AWAKE_SECONDS = 0.02
#: No doubt of a node is older than that, for the stalls that still count.
KEPT_SECONDS = 60.0
#: So many beats and answers are remembered: those of about a minute.
NEWEST = 60
#: However late something was, a judgement waits no longer for it than this.
MOST_LATE_SECONDS = 3.5


@dataclass
class Attention:
    """The stalls of this process: who did not look has not seen that nothing came."""

    _stalls: deque[tuple[float, float]] = field(default_factory=deque)

    def woke(self, due: float, now: float) -> bool:
        """A sleep that should have ended at `due` ended now; whether it was late.

        Several sleeps that end late because of the same stall count it once.
        """
        if now - due <= AWAKE_SECONDS:
            return False
        before = self._stalls[-1][1] if self._stalls else float("-inf")
        if now > max(due, before):
            self._stalls.append((max(due, before), now))
        while self._stalls and self._stalls[0][1] < now - KEPT_SECONDS:
            self._stalls.popleft()
        return True

    def missed(self, since: float) -> float:
        """How many seconds of the time since then this process did not run."""
        found = 0.0
        for begin, end in reversed(self._stalls):
            if end <= since:
                break
            found += end - max(begin, since)
        return found


@dataclass
class Lateness:
    """How much later than usual beats and answers come now and then."""

    _newest: deque[float] = field(default_factory=lambda: deque(maxlen=NEWEST))

    def note(self, seconds: float) -> None:
        """Something was so much later than usual."""
        self._newest.append(seconds)

    def usual(self) -> float:
        """The worst but one of late: a single one was an outage that is over, and no bad link."""
        if len(self._newest) < 2:
            return 0.0
        return max(0.0, min(MOST_LATE_SECONDS, *heapq.nlargest(2, self._newest)))
