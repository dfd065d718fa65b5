"""S3 is asked again where it does not answer, and no longer once the agent ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused, Unreachable

T = TypeVar("T")

#: S3 that does not answer is asked again after so long, and then each time after twice as long.
FIRST_PAUSE_SECONDS = 0.5


class Work(Protocol):
    """What asks S3, and may be told to end; `check` raises where it was."""

    stop: threading.Event

    def check(self) -> None: ...


def patiently(
    call: Callable[[], T], work: Work, refused: Callable[[Refused], Exception], tries: int
) -> T:
    """What the call returns. A refusal is raised as `refused` words it, and silence of S3 as
    CommandRefused after so many tries.
    """
    for again in range(tries):
        work.check()
        try:
            return call()
        except Unreachable as error:
            if again == tries - 1:
                words = f"S3 does not answer: {error}; the same command again is safe"
                raise CommandRefused("unreachable", words) from error
            work.stop.wait(FIRST_PAUSE_SECONDS * 2**again)
        except Refused as error:
            raise refused(error) from error
    raise AssertionError  # the last try returns or raises
