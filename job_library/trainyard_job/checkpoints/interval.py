"""How often to save: given, or chosen from what a save costs and how often the job fails."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..common.attempt import Attempt

#: Before anything is measured; short, so that the first failure costs little and the measurement
#: comes soon.
FIRST_AUTO_SECONDS = 30.0
#: A save should be done well before the next one begins, whatever the formula says.
_WRITES_APART = 2.0


def young_daly(cost: float, between_failures: float) -> float:
    """Seconds of training between two checkpoints that lose the least time; all arguments in
    seconds.

    Daly's higher-order estimate, which is Young's sqrt(2 * cost * between_failures) for a cheap
    save: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
    dumps", Future Generation Computer Systems 22 (2006), equation 37.
    """
    if cost >= 2 * between_failures:
        return between_failures
    share = cost / (2 * between_failures)
    return math.sqrt(2 * cost * between_failures) * (1 + math.sqrt(share) / 3 + share / 9) - cost


@dataclass
class Interval:
    """`every` seconds, or chosen (`auto`) from the mean seconds `between_failures`; None = not by
    time.
    """

    every: float | None
    between_failures: float | None = None
    _stall: float = 0.0
    _stalls: list[float] = field(default_factory=list)
    _write: float = 0.0

    @classmethod
    def of(cls, attempt: Attempt) -> Interval:
        return cls(
            attempt.every_seconds, attempt.seconds_between_failures if attempt.every_auto else None
        )

    def stalled(self, seconds: float) -> None:
        """Take note how long a step waited for the save that is on its way."""
        self._stall += seconds

    def written(self, seconds: float) -> None:
        """Take note how long the save that is committed now took."""
        self._stalls = [*self._stalls[-8:], self._stall]
        self._stall, self._write = 0.0, seconds

    def seconds(self) -> float | None:
        """Seconds from one save to the next; None when time does not decide."""
        if self.between_failures is None:
            return self.every
        if not self._stalls:
            return min(FIRST_AUTO_SECONDS, self.between_failures)
        cost = sorted(self._stalls)[len(self._stalls) // 2]
        return max(young_daly(max(cost, 1e-3), self.between_failures), _WRITES_APART * self._write)
