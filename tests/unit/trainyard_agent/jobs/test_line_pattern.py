"""A user's expression is matched in a process that a bad one cannot outlive."""

from __future__ import annotations

import pytest
from tests.support.waiting import eventually

from trainyard_agent.jobs import line_pattern
from trainyard_agent.jobs.line_pattern import LinePattern

pytestmark = pytest.mark.real


def answer(pattern: LinePattern, *lines: str) -> tuple[int | None, float | None]:
    found: list[tuple[int | None, float | None]] = []

    def answered() -> bool:
        given = pattern.look(lines if not found else ())
        found.append(given)
        return given != (None, None)

    eventually("the process answers", answered, 60)
    return found[-1]


def test_the_newest_step_and_loss_are_found() -> None:
    pattern = LinePattern(r"it (?P<step>[\d,]+) err (?P<loss>\S+)")
    assert answer(pattern, "it 1 err 0.5", "it 1,200 err 0.25", "noise") == (1200, 0.25)
    pattern.close()


def test_a_step_that_is_none_is_none() -> None:
    pattern = LinePattern(r"(?P<step>\w+) (?P<loss>\S+)")
    assert answer(pattern, "abc 0.5") == (None, 0.5)
    assert line_pattern._numbers(b"[null, null]") == (None, None)
    assert line_pattern._numbers(b"[") == (None, None)
    pattern.close()


def test_an_expression_that_takes_for_ever_is_ended_and_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_pattern, "PAUSE_SECONDS", 0.0)
    pattern = LinePattern(r"(?P<step>(a+)+)$")

    def given_up() -> bool:
        assert pattern.look(["a" * 60 + "b"]) == (None, None)
        return pattern.given_up

    eventually("it is given up", given_up, 120)
    pattern.close()
