"""What a receiver answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Answers that ask for less, with or without Retry-After.
_SLOW_DOWN = frozenset({429, 502, 503, 504})
_GONE = 410


@dataclass(frozen=True)
class Answer:
    """What came of a request: a status, or why there was none."""

    status: int | None
    said: str = ""
    retry_after: str = ""

    @property
    def outcome(self) -> Literal["delivered", "gone", "slow", "failed"]:
        if self.status is None:
            return "failed"
        if 200 <= self.status < 300:
            return "delivered"
        if self.status == _GONE:
            return "gone"
        return "slow" if self.status in _SLOW_DOWN else "failed"

    @property
    def why(self) -> str:
        """'' of one that succeeded."""
        if self.outcome == "delivered":
            return ""
        if self.status is None:
            return self.said
        if 300 <= self.status < 400:
            return f"the receiver answered {self.status}; redirects are not followed"
        return f"the receiver answered {self.status}"
