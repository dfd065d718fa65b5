"""Tasks that no other task awaits: kept while they run; one that fails is logged at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """The tasks of one part of the agent."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            # The event loop's handler logs the error and ends the agent: see daemon.break_off.
            task.result()


async def in_own_thread(work: Callable[[], T]) -> T:
    """For what takes minutes or hours: the loop's threads are few, and every command needs one."""
    pool = ThreadPoolExecutor(1, "long")
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, work)
    finally:
        pool.shutdown(wait=False)
