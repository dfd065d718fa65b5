"""The newest step of all files of a kind, and the loss beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard_agent.jobs import metric_files
from trainyard_agent.jobs.metric_files import MetricFiles


class Lines:
    """A file whose lines are a step, a name and a value; all of it is read at the first look."""

    def __init__(self, root: Path, path: Path) -> None:
        self._path, self._done = path, False

    def read(self) -> tuple[list[tuple[int, dict[str, float]]], bool]:
        if self._done:
            return [], False
        self._done = True
        rows = [line.split() for line in self._path.read_text().splitlines()]
        return [(int(step), {name: float(value)}) for step, name, value in rows], True


def files(root: Path) -> MetricFiles:
    return MetricFiles(root, "runs", lambda name: name.endswith(".rows"), Lines)


def write(root: Path, name: str, text: str) -> Path:
    path = root / "work/runs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_newest_step_of_all_files_counts_and_only_a_training_loss(tmp_path: Path) -> None:
    write(tmp_path, "a/one.rows", "10 train/loss 0.5\n30 eval/loss 9\n")
    write(tmp_path, "b/two.rows", "20 loss 0.25\n")
    write(tmp_path, "b/notes.txt", "not one of them")
    found = files(tmp_path)
    while found.look():
        pass
    assert (found.step, found.loss) in ((30, 0.5), (30, 0.25))
    assert not found.look()


def test_a_file_that_comes_later_is_found_at_a_later_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_files, "SEARCH_LOOKS", 2)
    found = files(tmp_path)
    assert not found.look()
    write(tmp_path, "one.rows", "10 loss 0.5\n")
    assert [found.look(), found.look(), found.look()] == [False, True, False]
    assert (found.step, found.loss) == (10, 0.5)


def test_a_file_that_went_meanwhile_is_passed_over(tmp_path: Path) -> None:
    gone = write(tmp_path, "a.rows", "99 loss 0.5\n")
    write(tmp_path, "b.rows", "10 loss 0.5\n")
    found = files(tmp_path)
    found._search()
    gone.unlink()
    assert found.look()
    assert found.step == 10
