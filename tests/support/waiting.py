"""One way to wait for what has to come: a condition, its words, and a bound that ends a hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tests.support.patience import patient


def eventually(
    what: str, condition: Callable[[], Any], seconds: float = 60.0, *, poll: float = 0.02
) -> Any:
    """The condition's first true value; AssertionError with `what` after patient(seconds)."""
    deadline = time.monotonic() + patient(seconds)
    while not (found := condition()):
        _not_beyond(deadline, what, seconds)
        time.sleep(poll)
    return found


async def eventually_async(
    what: str, condition: Callable[[], Any], seconds: float = 60.0, *, poll: float = 0.02
) -> Any:
    """The same for a condition that other tasks of this event loop bring about."""
    deadline = time.monotonic() + patient(seconds)
    while not (found := condition()):
        _not_beyond(deadline, what, seconds)
        await asyncio.sleep(poll)
    return found


def _not_beyond(deadline: float, what: str, seconds: float) -> None:
    assert time.monotonic() < deadline, f"not within {patient(seconds):.0f} s: {what}"
