"""An event loop whose clock is the test's own: seconds pass at once, and the process can stall."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any

import pytest


class _Selector(selectors.SelectSelector):
    """Instead of waiting it moves the clock."""

    loop: SimulatedLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is left that could happen: the story hangs"
        self.loop.now += max(0.0, timeout)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """`time.monotonic` and every sleep follow its clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def stall(self, seconds: float) -> None:
        """The process does not run for so long; what comes meanwhile waits."""
        self.now += seconds


def play_simulated(
    monkeypatch: pytest.MonkeyPatch, loop: SimulatedLoop, story: Coroutine[Any, Any, None]
) -> None:
    """Run a story by the loop's clock, and end what it leaves."""
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", loop.time)
        try:
            loop.run_until_complete(story)
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0.01))
        finally:
            loop.close()
