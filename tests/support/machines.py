"""A small Step Functions: it walks the real definitions against in-memory ports, state by state."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.support.memory import Died, Execution, World
from tests.support.repository import ROOT

from trainyard.app.machines.steps import run_step

DEFINITIONS = ROOT / "statemachines"
CRASH_ERROR = "Lambda.Unknown"


@functools.cache
def definition(machine: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DEFINITIONS / f"{machine}.asl.json").read_text())
    return loaded


@dataclass
class Walker:
    """One execution. `step` moves it by one state; it rests while it waits for a token."""

    world: World
    execution: Execution
    state: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    token: str | None = None
    wait_until: Any = None
    visited: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine = definition(self.execution.machine)
        self.state = self.machine["StartAt"]
        self.data = dict(self.execution.payload)
        self.entered = self.world.clock.now()

    @property
    def over(self) -> bool:
        return self.execution.status != "RUNNING"

    def step(self) -> bool:
        """Do one state, or end a wait; False if there is nothing to do now."""
        if self.over:
            return False
        if self.token is not None:
            return self._waited()
        state = self.machine["States"][self.state]
        self.visited.append(self.state)
        KINDS[state["Type"]](self, state)
        return True

    def _waited(self) -> bool:
        state = self.machine["States"][self.state]
        if self.world.executions.tokens.get(self.token or "") is not None:
            self.token = None
            self._go(state["Next"])
        elif self.world.clock.now() >= self.wait_until:
            self.world.executions.tokens[self.token or ""] = {"timedOut": True}
            self.token = None
            self._failed(state, "States.Timeout", "")
        else:
            return False
        return True

    def _go(self, next_: str) -> None:
        self.state = next_
        self.tries = {}
        # The clock of a test stands still from one state to the next.
        self.entered = max(self.world.clock.now(), self.entered + timedelta(microseconds=100))

    def task(self, state: dict[str, Any]) -> None:
        waits = state["Resource"].endswith(".waitForTaskToken")
        token = f"token-{len(self.world.executions.tokens)}" if waits else None
        if token is not None:
            self.world.executions.tokens[token] = None
        answer = self._call(state, token)
        if answer is None:
            return
        if waits:
            seconds = _path(self.data, state["TimeoutSecondsPath"])
            assert isinstance(seconds, int)
            assert seconds > 0
            self.token, self.wait_until = token, self.world.clock.now() + timedelta(seconds=seconds)
            return
        self._result(state, {"Payload": answer})
        self._go(state["Next"])

    def _call(self, state: dict[str, Any], token: str | None) -> dict[str, Any] | None:
        state_context = {
            "EnteredTime": self.entered.isoformat(),
            "RetryCount": self.tries.get(self.state, 0),
        }
        context = {"Task": {"Token": token}, "State": state_context}
        payload = _fill(state["Parameters"]["Payload"], self.data, context)
        try:
            answer = run_step(self.world.ports, payload)
        except Died:
            self.world.fuse.arm(None)
            self._failed(state, CRASH_ERROR, "the process died")
            return None
        except Exception as error:  # noqa: BLE001 - a Lambda error of any kind is what Retry and Catch are about
            self._failed(
                state,
                type(error).__name__,
                json.dumps({"errorMessage": str(error), "errorType": type(error).__name__}),
            )
            return None
        json.dumps(answer)
        return answer

    def _failed(self, state: dict[str, Any], error: str, cause: str) -> None:
        for retry in state.get("Retry", []):
            if (
                error in retry["ErrorEquals"]
                and self.tries.get(self.state, 0) < retry["MaxAttempts"]
            ):
                self.tries[self.state] = self.tries.get(self.state, 0) + 1
                self.world.clock.tick(retry["IntervalSeconds"])
                return
        for catch in state.get("Catch", []):
            if error in catch["ErrorEquals"] or "States.ALL" in catch["ErrorEquals"]:
                _put(self.data, catch.get("ResultPath", "$"), {"Error": error, "Cause": cause})
                self._go(catch["Next"])
                return
        self.execution.status = "FAILED"

    def _result(self, state: dict[str, Any], result: dict[str, Any]) -> None:
        if "ResultSelector" in state:
            result = _fill(state["ResultSelector"], result, {})
        _put(self.data, state.get("ResultPath", "$"), result)

    def choice(self, state: dict[str, Any]) -> None:
        for rule in state["Choices"]:
            if _path(self.data, rule["Variable"]) == rule["StringEquals"]:
                self._go(rule["Next"])
                return
        self._go(state["Default"])

    def map(self, state: dict[str, Any]) -> None:
        """Items one after the other; an item's task has the Map's own retry here."""
        inner = state["ItemProcessor"]["States"][state["ItemProcessor"]["StartAt"]]
        for item in _path(self.data, state["ItemsPath"]):
            given = _fill(state["ItemSelector"], self.data, {"Map": {"Item": {"Value": item}}})
            payload = _fill(inner["Parameters"]["Payload"], given, {})
            for _ in range(3):
                try:
                    run_step(self.world.ports, payload)
                    break
                except Died:
                    self.world.fuse.arm(None)
                except Exception as error:  # noqa: BLE001 - a Lambda error of any kind is what Retry and Catch are about
                    failure = error
            else:
                self._failed(state, "ActionFailed", str(failure))
                return
        self._go(state["Next"])

    def passing(self, state: dict[str, Any]) -> None:
        _put(self.data, state["ResultPath"], state["Result"])
        self._go(state["Next"])

    def wait(self, state: dict[str, Any]) -> None:
        self.world.clock.tick(state["Seconds"])
        self._go(state["Next"])

    def succeed(self, state: dict[str, Any]) -> None:
        self.execution.status = "SUCCEEDED"

    def fail(self, state: dict[str, Any]) -> None:
        self.execution.status = "FAILED"


KINDS: dict[str, Callable[[Walker, dict[str, Any]], None]] = {
    "Task": Walker.task, "Choice": Walker.choice, "Map": Walker.map, "Pass": Walker.passing,
    "Wait": Walker.wait, "Succeed": Walker.succeed, "Fail": Walker.fail,
}  # fmt: skip


@dataclass
class Machines:
    """All executions that were started; `run_until_rest` walks them until each waits or is over."""

    world: World
    walkers: dict[tuple[str, str], Walker] = field(default_factory=dict)

    def step(self) -> bool:
        """Move every execution by one state; False when all of them wait or are over."""
        for key, execution in list(self.world.executions.started.items()):
            if key not in self.walkers:
                self.walkers[key] = Walker(self.world, execution)
        moved = [walker.step() for walker in self.walkers.values()]
        return any(moved)

    def run_until_rest(self, limit: int = 2000) -> None:
        for _ in range(limit):
            if not self.step():
                return
        running = [
            (key, one.state, one.visited[-12:]) for key, one in self.walkers.items() if not one.over
        ]
        raise AssertionError(f"the machines never rest: {running}")

    @property
    def running(self) -> list[str]:
        return [
            f"{key[0]} {key[1]} in {walker.state}"
            for key, walker in self.walkers.items()
            if not walker.over
        ]


def _path(data: Any, path: str) -> Any:
    for key in path.removeprefix("$").strip(".").split("."):
        data = data[key] if key else data
    return data


def _put(data: dict[str, Any], path: str | None, value: Any) -> None:
    if path is None:
        return
    assert path.startswith("$.")
    data[path[2:]] = copy.deepcopy(value)


def _fill(template: Any, data: dict[str, Any], context: dict[str, Any]) -> Any:
    if not isinstance(template, dict):
        return template
    filled = {}
    for key, value in template.items():
        if key.endswith(".$"):
            source = (context, value[1:]) if value.startswith("$$") else (data, value)
            filled[key[:-2]] = copy.deepcopy(_path(*source))
        else:
            filled[key] = _fill(value, data, context)
    return filled
