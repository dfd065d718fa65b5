"""Whatever breaks in a part of the agent ends the agent."""

from __future__ import annotations

import asyncio
import threading

import pytest

from trainyard_agent import daemon


@pytest.mark.parametrize(
    "error",
    [OSError(5, "Input/output error"), FileNotFoundError(2, "gone"), TimeoutError(), ValueError()],
)
def test_a_part_that_broke_ends_the_agent_whatever_broke_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(daemon.os, "_exit", codes.append)
    monkeypatch.setattr(daemon.logging, "shutdown", lambda: None)

    async def part() -> None:
        raise error

    asyncio.run(daemon.keep_running(part()))
    assert codes == [70]


def test_a_thread_that_breaks_ends_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(daemon.os, "_exit", ended.append)
    monkeypatch.setattr(threading, "excepthook", daemon.thread_broke)

    def break_down() -> None:
        raise KeyError("a bug")

    thread = threading.Thread(target=break_down)
    thread.start()
    thread.join()
    assert ended == [70]
