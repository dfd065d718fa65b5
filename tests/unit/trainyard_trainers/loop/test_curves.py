"""Curves are files that TensorBoard reads: the agent's own reader checks every byte of them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from trainyard_agent.jobs.event_files import EventFile, EventFiles
from trainyard_agent.jobs.protobuf import fields
from trainyard_trainers.loop import curves
from trainyard_trainers.loop.curves import Curves


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("events.out.tfevents.*"))


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "EVERY_SECONDS", 0.0)
    drawn = Curves(tmp_path / "work/tb", resumed_from=None)
    for step in (1, 300, 70_000):
        drawn.add(step, {"train/loss": 1 / step, "samplesPerSecond": 5.0, "none": None})
    (path,) = files(tmp_path / "work/tb")
    file = EventFile(tmp_path, path)
    read, _ = file.read()
    assert not file.damaged
    assert [step for step, _ in read] == [1, 300, 70_000]
    assert read[0][1] == {"train/loss": 1.0, "samplesPerSecond": 5.0}
    found = EventFiles(tmp_path, "tb")
    found.look()
    assert (found.step, found.loss) == (70_000, pytest.approx(1 / 70_000))


def test_it_begins_as_real_files_do(tmp_path: Path) -> None:
    Curves(tmp_path, resumed_from=None)
    (path,) = files(tmp_path)
    body = path.read_bytes()
    assert b"brain.Event:2" in body
    assert len(body) == 12 + int.from_bytes(body[:8], "little") + 4


def test_a_resume_says_from_which_step_older_points_are_void(tmp_path: Path) -> None:
    Curves(tmp_path, resumed_from=41)
    (path,) = files(tmp_path)
    body = path.read_bytes()
    at = 16 + int.from_bytes(body[:8], "little")
    length = int.from_bytes(body[at : at + 8], "little")
    said = dict(fields(body[at + 12 : at + 12 + length]))
    assert (said[2], said[7]) == (42, b"\x08\x01")


def test_points_are_a_second_apart_but_the_last_is_always_drawn(tmp_path: Path) -> None:
    drawn = Curves(tmp_path, resumed_from=None)
    for step in range(1, 50):
        drawn.add(step, {"train/loss": 1.0}, last=step == 49)
    (path,) = files(tmp_path)
    read, _ = EventFile(tmp_path, path).read()
    steps = [step for step, _ in read]
    assert steps[:1] + steps[-1:] == [1, 49]
    assert len(steps) < 49


def test_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    drawn = Curves(tmp_path, resumed_from=None)
    drawn.add(1, {"train/loss": float("nan"), "a": float("inf"), "b": 1e300, "c": 2.0})
    (path,) = files(tmp_path)
    [(_, values)], _ = EventFile(tmp_path, path).read()
    assert sorted(values) == ["b", "c"]


def test_a_full_disk_costs_the_curves_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = Curves(tmp_path, resumed_from=None)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("builtins.open", full)
    for step in (1, 2):
        drawn.add(step, {"train/loss": 1.0}, last=True)
    monkeypatch.undo()
    assert capsys.readouterr().err.count("no more curves are written") == 1
