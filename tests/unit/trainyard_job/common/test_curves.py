"""Curves keep their shape in a file that does not grow with the number of steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainyard_job.common import curves
from trainyard_job.common.curves import MOST_POINTS, MOST_SETS, Curves


def points(path: Path, name: str) -> list[int]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["step"] for line in lines if name in line["metrics"]]


def test_a_rare_metric_keeps_its_points_beside_a_frequent_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    kept = Curves(path)
    for step in range(1, 20_001):
        kept.add(step, {"rate": step / 7})
        if step % 1000 == 0:
            kept.add(step, {"accuracy": 0.5})
    kept.flush()
    assert points(path, "accuracy") == list(range(1000, 20_001, 1000))
    often = points(path, "rate")
    assert MOST_POINTS / 2 <= len(often) < MOST_POINTS
    assert (often[0], often == sorted(often), often[-1] > 19_900) == (1, True, True)


def test_the_lowest_the_highest_and_the_newest_stay(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for first in (1, 10_001):  # the attempt is started again in between
        kept = Curves(path)
        for step in range(first, first + 10_000):
            kept.add(step, {"loss": {1234: -5.0, 15_678: 99.0}.get(step, 0.5), "other": 1.0})
        kept.flush()
    found = points(path, "loss")
    assert {1, 1234, 15_678, 20_000} <= set(found)
    assert found == sorted(set(found))
    assert len(found) <= MOST_POINTS + 5


def test_another_start_of_the_attempt_adds_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in (1, 2):
        kept = Curves(path)
        kept.add(step, {"rate": float("inf")})
        kept.flush()
    assert points(path, "rate") == [1, 2]
    assert json.loads(path.read_text().splitlines()[0])["metrics"] == {"rate": None}


def test_what_is_too_much_is_left_out_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Curves(tmp_path / "metrics.jsonl")
    for number in range(MOST_SETS + 5):
        kept.add(1, {f"name-{number}": 1.0})
    kept.flush()
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == MOST_SETS
    assert capsys.readouterr().err.count("sets of names") == 1


def test_a_file_that_cannot_be_written_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(curves, "write_text", full)
    kept = Curves(tmp_path / "metrics.jsonl")
    kept.add(1, {"rate": 1.0})
    kept.flush()
    assert "No space left on device" in capsys.readouterr().err
