"""One core for both worlds: what is asked, and how long is paused, in plain steps.

A flow yields steps and does nothing itself. `driven` takes them with blocking calls, `async_driven`
in threads and with asyncio's sleep, so that both SDKs do the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from .problems import SdkError

R = TypeVar("R")


@dataclass(frozen=True)
class Ask:
    """A call that blocks; its answer, or its SdkError, goes back into the flow."""

    call: Callable[[], Any]


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Give:
    """Something for the one who iterates."""

    item: Any


Step = Ask | Pause | Give
Flow = Generator[Step, Any, R]


def ask(call: Callable[[], R]) -> Flow[R]:
    """The call as a flow; its answer has the call's type."""
    answer: R = yield Ask(call)
    return answer


def driven(flow: Flow[R]) -> Generator[Any, None, R]:
    """Iterates over what the flow gives; returns what it returns."""
    course = _Course(flow)
    while not isinstance(step := course.next(), _End):
        if isinstance(step, Give):
            yield step.item
        elif isinstance(step, Pause):
            time.sleep(step.seconds)
        else:
            course.heard(*_called(step.call))
    result: R = step.result
    return result


def finished(flow: Flow[R]) -> R:
    """What a flow that gives nothing returns."""
    iterator = driven(flow)
    while True:
        try:
            next(iterator)
        except StopIteration as end:
            result: R = end.value
            return result


async def async_driven(flow: Flow[Any]) -> AsyncIterator[Any]:
    """As `driven`. Nothing blocks the loop: a call runs in a thread, a pause in none."""
    course = _Course(flow)
    while not isinstance(step := course.next(), _End):
        if isinstance(step, Give):
            yield step.item
        elif isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        else:
            course.heard(*await asyncio.to_thread(_called, step.call))


async def async_finished(flow: Flow[R]) -> R:
    """What a flow that gives nothing returns."""
    results: list[R] = []

    def kept() -> Flow[None]:
        results.append((yield from flow))

    async for _ in async_driven(kept()):
        pass
    return results[0]


@dataclass(frozen=True)
class _End:
    result: Any


class _Course:
    """Where a flow is, and what it hears next."""

    def __init__(self, flow: Flow[Any]) -> None:
        self._flow = flow
        self._answer: Any = None
        self._error: SdkError | None = None

    def heard(self, answer: Any, error: SdkError | None) -> None:
        self._answer, self._error = answer, error

    def next(self) -> Step | _End:
        answer, error = self._answer, self._error
        self._answer = self._error = None
        try:
            return self._flow.send(answer) if error is None else self._flow.throw(error)
        except StopIteration as end:
            return _End(end.value)


def _called(call: Callable[[], Any]) -> tuple[Any, SdkError | None]:
    try:
        return call(), None
    except SdkError as error:
        return None, error
