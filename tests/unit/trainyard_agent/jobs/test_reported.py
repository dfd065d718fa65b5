"""The files that a program reports into are read a piece at a time, whatever is in them."""

from __future__ import annotations

import errno
import json
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from trainyard_agent.jobs import reported
from trainyard_agent.jobs.reported import Reported, losses_kept
from trainyard_contracts.curves import Point


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reported, "PAUSE_SECONDS", 0.0)


def step_line(step: int, loss: float | None = 0.5, **more: float) -> str:
    line = {"step": step, "loss": loss, "samplesPerSecond": None, "stepSeconds": 0.0,
            "dataSeconds": 0.0, "at": 1000.0 + step}  # fmt: skip
    return json.dumps(line | more)


def metric_line(step: int, **metrics: float | None) -> str:
    return json.dumps({"step": step, "at": 1000.0 + step, "metrics": metrics})


def points(found: Reported) -> dict[str, Sequence[Point]]:
    both = [*found.steps.curves(), *found.metrics.curves()]
    return {curve.name: curve.points for curve in both}


def test_losses_metrics_and_what_trainers_measure_are_taken_up(tmp_path: Path) -> None:
    lines = [step_line(1), step_line(2, None), step_line(3, 0.25, validationLoss=0.75)]
    (tmp_path / "steps.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "metrics.jsonl").write_text(metric_line(2, accuracy=0.5, rate=None) + "\n")
    found = Reported(tmp_path)
    found.look()
    assert points(found) == {
        "loss": [(1, 1001.0, 0.5), (3, 1003.0, 0.25)],
        "validationLoss": [(3, 1003.0, 0.75)],
        "accuracy": [(2, 1002.0, 0.5)],
        "rate": [],
    }


def test_times_are_taken_up_where_the_program_measures_them(tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_text(
        step_line(1, stepSeconds=0.5, dataSeconds=0.0, samplesPerSecond=64.0) + "\n"
    )
    found = Reported(tmp_path)
    found.look()
    assert points(found).keys() == {"loss", "samplesPerSecond", "stepSeconds", "dataSeconds"}


def test_only_what_was_added_is_read_and_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(f"{step_line(1)}\n{step_line(2)[:20]}")
    found = Reported(tmp_path)
    found.look()
    assert [point[0] for point in points(found)["loss"]] == [1]
    path.write_text(f"{step_line(1)}\n{step_line(2)}\n{step_line(3)}")
    found.look()
    assert [point[0] for point in points(found)["loss"]] == [1, 2]
    found.look(last=True)
    assert [point[0] for point in points(found)["loss"]] == [1, 2, 3]
    found.look(last=True)
    assert found.steps.curves()[0].reports == 3


def test_a_torn_line_and_what_is_no_report_are_passed_over(tmp_path: Path) -> None:
    good = step_line(4)
    bad = [
        step_line(1)[:30], "", "[]", "7", '"x"', "{}", '{"step": "1", "loss": 1}', '{"step": -1}',
        '{"step": true, "loss": 1}', '{"step": 1.5, "loss": 1}', '{"step": 1, "loss": "low"}',
        "[" * 100_000, "\x00\x01", '{"step": 1, "metrics": []}',
        '{"step": ' + "9" * 5000 + ', "loss": 1}',
    ]  # fmt: skip
    (tmp_path / "steps.jsonl").write_bytes("\n".join([*bad, good]).encode() + b"\n\xff\xfe\n")
    (tmp_path / "metrics.jsonl").write_text("\n".join([*bad, metric_line(4, rate=1.0)[:-3]]))
    found = Reported(tmp_path)
    found.look(last=True)
    assert points(found) == {"loss": [(4, 1004.0, 0.5)]}


def test_a_time_that_is_none_is_that_of_the_look(tmp_path: Path) -> None:
    lines = ['{"step": 1, "loss": 1}', '{"step": 2, "loss": 1, "at": 1e300}',
             '{"step": 3, "loss": 1, "at": -5}', '{"step": 4, "loss": 1, "at": NaN}']  # fmt: skip
    (tmp_path / "steps.jsonl").write_text("\n".join(lines) + "\n")
    found = Reported(tmp_path)
    found.look()
    assert all(1.6e9 < at < 1e11 for _, at, _ in points(found)["loss"])


def test_a_file_that_was_emptied_or_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(f"{step_line(1)}\n{step_line(2)}\n")
    found = Reported(tmp_path)
    found.look()
    path.write_text(f"{step_line(7)}\n")
    found.look()
    assert [point[0] for point in points(found)["loss"]] == [7]


def test_a_large_file_is_read_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twentieth of what one may have: the peak does not depend on it."""
    monkeypatch.setattr(reported, "BLOCK_BYTES", 64 * 1024)
    line = step_line(1, 0.5, filler=1.0).encode()
    with open(tmp_path / "steps.jsonl", "wb") as stream:
        for _ in range(40):
            stream.write((line + b"\n") * 2_000)
        stream.write(b"x" * 20_000_000 + b"\n" + step_line(9, 0.125).encode() + b"\n")
    found = Reported(tmp_path)
    tracemalloc.start()
    found.look()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1024**2, f"{peak} bytes of a file of {os.stat(tmp_path / 'steps.jsonl')}"
    assert points(found)["loss"][-1] == (9, 1009.0, 0.125)
    assert found.steps.curves()[0].reports == 80_001


def test_large_metrics_are_read_at_the_end_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported, "OFTEN_BYTES", 100)
    (tmp_path / "metrics.jsonl").write_text("\n".join(metric_line(n, rate=1.0) for n in range(9)))
    found = Reported(tmp_path)
    found.look()
    assert not points(found)
    found.look(last=True)
    assert len(points(found)["rate"]) == 9


def test_no_link_is_followed_and_no_pipe_waited_for(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(step_line(1) + "\n")
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    (attempt / "steps.jsonl").symlink_to(secret)
    os.mkfifo(attempt / "metrics.jsonl")
    (attempt / "curves.json").symlink_to(secret)
    found = Reported(attempt)
    found.look(last=True)
    assert (points(found), losses_kept(attempt)) == ({}, [])


def test_nothing_is_there(tmp_path: Path) -> None:
    found = Reported(tmp_path / "no")
    found.look(last=True)
    assert (points(found), losses_kept(tmp_path / "no")) == ({}, [])


def test_losses_that_cannot_be_read_just_now_are_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object) -> bytes:
        raise OSError(errno.ESTALE, "the file system fails over")

    monkeypatch.setattr(reported, "read_small", stale)
    with pytest.raises(OSError, match="fails over"):
        losses_kept(tmp_path)
