"""Weights & Biases' package gets one run with one id; without the package nothing is sent.

The package is not in the tests' environment. `Package` has what is used of it, as version 0.22 has.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from trainyard_trainers.loop.trackers.tracker import Point, Refused, Unreachable
from trainyard_trainers.loop.trackers.wandb import Wandb

RUN = "run-01j0000000000000000000000a"


class Error(Exception):
    pass


class UsageError(Error):
    pass


class AuthenticationError(Error):
    pass


class Package:
    """Writes down what it is called with. `fails`: what init raises."""

    Error = Error
    errors = SimpleNamespace(UsageError=UsageError, AuthenticationError=AuthenticationError)

    def __init__(self) -> None:
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.fails: Exception | None = None

    def Settings(self, **given: Any) -> dict[str, Any]:
        return given

    def init(self, **given: Any) -> Package:
        if self.fails is not None:
            raise self.fails
        self.called.append(("init", given))
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        if self.fails is not None:
            raise self.fails
        self.called.append(("log", {"values": values, "step": step}))

    def finish(self, exit_code: int) -> None:
        if self.fails is not None:
            raise self.fails
        self.called.append(("finish", {"exit_code": exit_code}))


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Package:
    made = Package()
    monkeypatch.setitem(sys.modules, "wandb", made)  # type: ignore[arg-type]
    return made


def test_all_attempts_go_on_with_the_run_of_the_same_id(package: Package) -> None:
    for _ in range(2):
        tracker = Wandb(RUN, {})
        tracker.begin()
        tracker.add([Point(3, 1.0, {"train/loss": 0.5})])
        tracker.end("FINISHED")
    began, logged, ended = package.called[:3]
    assert package.called[3:] == [began, logged, ended]
    assert began[1] == {
        "project": "trainyard",
        "id": RUN,
        "name": RUN,
        "resume": "allow",
        "settings": {"console": "off"},
    }
    assert logged == ("log", {"values": {"train/loss": 0.5}, "step": 3})
    assert ended == ("finish", {"exit_code": 0})


def test_what_its_variables_name_is_taken(package: Package) -> None:
    Wandb(RUN, {"WANDB_PROJECT": "p", "WANDB_RUN_ID": "i", "WANDB_NAME": "n"}).begin()
    given = package.called[0][1]
    assert (given["project"], given["id"], given["name"]) == ("p", "i", "n")


def test_a_wrong_key_is_a_refusal_and_anything_else_may_pass(package: Package) -> None:
    tracker = Wandb(RUN, {})
    package.fails = AuthenticationError("API key must have 40+ characters")
    with pytest.raises(Refused, match="look at WANDB_API_KEY"):
        tracker.begin()
    package.fails = Error("timed out")
    with pytest.raises(Unreachable, match="timed out"):
        tracker.begin()


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), Exception("mailbox closed")])
def test_where_its_own_process_is_gone_it_takes_no_more_points(
    package: Package, error: Exception
) -> None:
    tracker = Wandb(RUN, {})
    tracker.begin()
    package.fails = error
    with pytest.raises(Refused, match=f"its own process is gone .*{error}"):
        tracker.add([Point(3, 1.0, {"train/loss": 0.5})])
    with pytest.raises(Refused, match="is gone"):
        tracker.end("FINISHED")


def test_without_the_package_it_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(Refused, match=r"job\.pythonEnvironment"):
        Wandb(RUN, {})
