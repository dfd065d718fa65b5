"""A tracker's process keeps points while its tracker does not answer, as far as there is room."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Sequence

import pytest
from tests.support.waiting import eventually

from trainyard_trainers.loop.trackers import process
from trainyard_trainers.loop.trackers.process import Sender, Waiting
from trainyard_trainers.loop.trackers.tracker import Point, Refused, Unreachable


class Tracked:
    """A tracker that fails so often."""

    def __init__(self, fails: int = 0) -> None:
        self.fails, self.steps, self.ended = fails, [], ""

    def _maybe(self) -> None:
        if self.fails:
            self.fails -= 1
            raise Unreachable("no route")

    def begin(self) -> None:
        self._maybe()

    def add(self, points: Sequence[Point]) -> None:
        self._maybe()
        self.steps += [point.step for point in points]

    def end(self, how: str) -> None:
        self._maybe()
        self.ended = how


def lines(count: int, *more: dict[str, object]) -> io.BytesIO:
    points = [{"step": step, "at": float(step), "values": {"a": 1.0}} for step in range(count)]
    return io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in [*points, *more]))


def never() -> None:
    raise AssertionError("it did not die")


def test_all_points_come_in_order_and_then_the_end() -> None:
    waiting, tracked = Waiting(), Tracked()
    waiting.read(lines(250, {"end": "FINISHED"}), never)
    Sender("t", waiting).run(tracked)
    assert (tracked.steps, tracked.ended) == ([*range(250)], "FINISHED")


def test_a_tracker_that_is_not_reached_is_tried_again_and_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(process, "LAST_PAUSE_SECONDS", 0.002)
    waiting, tracked = Waiting(), Tracked(fails=5)
    waiting.read(lines(3, {"end": "KILLED"}), never)
    Sender("t", waiting).run(tracked)
    assert (tracked.steps, tracked.ended) == ([0, 1, 2], "KILLED")
    assert capsys.readouterr().err == (
        "trainyard: the tracker t is not reached: no route; training goes on\n"
    )


def test_of_too_many_points_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_POINTS", 10)
    waiting, tracked = Waiting(), Tracked()
    waiting.read(lines(25, {"end": "FINISHED"}), never)
    Sender("t", waiting).run(tracked)
    assert tracked.steps == [*range(15, 25)]


def test_points_that_make_way_while_they_are_sent_are_not_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "MOST_POINTS", 10)
    waiting = Waiting()
    waiting.read(lines(10, {"end": ""}), lambda: None)
    points = waiting.first()
    waiting.read(io.BytesIO(b'{"step": 10, "at": 10.0, "values": {}}\n'), lambda: None)
    waiting.done(points)
    assert [point.step for point in waiting.first()] == [10]


def test_points_are_sent_once_where_the_clock_went_back() -> None:
    waiting, tracked = Waiting(), Tracked()
    said = [{"step": step, "at": 100.0 - step, "values": {}} for step in range(150)]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in [*said, {"end": "FINISHED"}])
    waiting.read(io.BytesIO(body), never)
    taken = waiting.first()
    waiting.done(taken)
    assert [point.step for point in waiting.first()] == [*range(100, 150)]
    Sender("t", waiting).run(tracked)
    assert tracked.steps == [*range(100, 150)]


def test_a_pause_ends_when_training_does() -> None:
    waiting = Waiting()
    thread = threading.Thread(target=waiting.pause, args=(3600.0,))
    thread.start()
    waiting.read(lines(0, {"end": "FINISHED"}), never)
    thread.join(60)
    assert not thread.is_alive()


def test_nothing_is_read_behind_the_end() -> None:
    waiting = Waiting()
    given = io.BytesIO(lines(1, {"end": "FINISHED"}).getvalue() + b"anything\n")
    waiting.read(given, never)
    assert (waiting.end, given.readline()) == ("FINISHED", b"anything\n")


def test_training_that_was_killed_ends_its_trackers() -> None:
    died: list[bool] = []
    Waiting().read(lines(3), lambda: died.append(True))
    assert died == [True]


def test_a_refusal_is_said_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(*_: object) -> Tracked:
        raise Refused("the key is wrong")

    monkeypatch.setattr(process, "TRACKERS", {"t": refuses})
    monkeypatch.setattr(process.signal, "signal", lambda *_: None)
    monkeypatch.setattr(process.sys, "stdin", io.TextIOWrapper(lines(0, {"end": "FINISHED"})))
    assert process.main(["t", "run-x"]) == 1
    told = "the tracker t takes no points: the key is wrong. Training goes on"
    eventually("it is told", lambda: told in capsys.readouterr().err)
