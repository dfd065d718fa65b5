"""Waits for a stage's condition, within the stage's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..doctor.account import NotAnswered
from ..problems import ApiProblem, CliError, Unreachable

T = TypeVar("T")
#: What passes: nobody answered, or the function behind the API was throttled or failed.
PASSING = (429, 500, 502, 503, 504)


class StageFailed(CliError):
    """A stage did not prove what it was to prove."""


class Watch:
    """The clock of one stage."""

    def __init__(
        self,
        seconds: float,
        poll_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds, self._poll, self._clock, self._sleep = seconds, poll_seconds, clock, sleep
        self._began = clock()

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began

    @property
    def over(self) -> bool:
        return self.spent >= self.seconds

    def until(
        self,
        what: str,
        look: Callable[[], T | None],
        *,
        next_step: str = "Look at the evidence in the file",
    ) -> T:
        """The first answer of `look` that is not None.

        An API that does not answer is asked again. Raises StageFailed when time is up.
        """
        trouble = ""
        while True:
            try:
                found = look()
                if found is not None:
                    return found
                trouble = ""
            except (Unreachable, ApiProblem, NotAnswered) as error:
                if isinstance(error, ApiProblem) and error.status not in PASSING:
                    raise
                if isinstance(error, NotAnswered) and error.forbidden:
                    raise
                trouble = f"; the last answer was: {error}"
            if self.over:
                raise StageFailed(
                    "Not in time", f"not within {self.seconds:.0f} s: {what}{trouble}", next_step
                )
            self._sleep(self._poll)
