"""Events of one function wait for that function alone, and no longer than it wants them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.waiting import eventually

from sam_on_moto.functions import registry
from sam_on_moto.functions.registry import Functions
from sam_on_moto.functions.runtime_api import Invocation
from sam_on_moto.functions.workers import FunctionConfig


class Held:
    """The workers of a function: one call at once, each as long as it is held."""

    def __init__(self, config: FunctionConfig, *_: Any, **__: Any) -> None:
        self.config, self.done = config, 0
        self.go = threading.Event()

    def invoke(self, payload: bytes) -> Invocation:
        self.go.wait(30)
        self.done += 1
        return Invocation(payload, 0.0, self.config.arn)

    def close(self) -> None:
        self.go.set()


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    monkeypatch.setattr(registry, "Pool", Held)
    cloud: Any = SimpleNamespace(logs=SimpleNamespace(write=None))
    made = Functions(cloud)
    yield made
    made.close()


def added(functions: Functions, name: str, example: FunctionConfig) -> Any:
    functions.add(replace(example, name=name))
    return functions.get(name).pool


@pytest.fixture
def example() -> FunctionConfig:
    return FunctionConfig(
        name="", arn="arn", handler="handler.handler", role="role", timeout=60, memory=128,
        runtime="python3.11", code=Path(), opt=Path(), log_group="group",
    )  # fmt: skip


def test_a_function_that_hangs_holds_up_no_other(
    functions: Functions, example: FunctionConfig
) -> None:
    slow, quick = added(functions, "slow", example), added(functions, "quick", example)
    quick.go.set()
    for _ in range(200):
        functions.invoke_later("slow", b"")
    functions.invoke_later("quick", b"")
    eventually("the other runs", lambda: quick.done == 1)
    assert slow.done == 0


def test_an_event_that_is_too_old_for_its_function_is_given_up(
    functions: Functions, example: FunctionConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(registry, "monotonic", lambda: now[0])
    pool = added(functions, "slow", example)
    functions.get("slow").most_age = 60.0
    for _ in range(100):
        functions.invoke_later("slow", b"")
    now[0] = 61.0
    pool.go.set()
    eventually("the rest is given up", lambda: len(functions.lost) == 20)
    functions.close()
    assert pool.done < 100
    assert "older than 60 s" in functions.lost[-1]["error"]
