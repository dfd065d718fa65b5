"""What was printed since a time is found by marks beside the log, whatever a job writes there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainyard_agent.jobs import log_times
from trainyard_agent.jobs.log_times import LogWatch, Mark, kept, offset, read


class Clock:
    now = 1000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(log_times, "time", made)
    return made


@pytest.fixture
def prints(tmp_path: Path, clock: Clock) -> Callable[[str, float], None]:
    attempts: Any = SimpleNamespace()
    watch = LogWatch(attempts)

    def say(text: str, at: float) -> None:
        clock.now = at
        with open(tmp_path / "job.log", "a", encoding="utf-8") as stream:
            stream.write(text)
        watch.look([tmp_path])

    return say


def test_what_was_printed_since_a_time_begins_behind_what_was_there_then(
    tmp_path: Path, prints: Callable[[str, float], None]
) -> None:
    for text, at in (("one\n", 1000), ("", 1005), ("two\n", 1010), ("three\n", 1100)):
        prints(text, at)
    marks = read(tmp_path)
    assert marks == [(1000, 4), (1010, 8), (1100, 14)]
    assert [offset(marks, at) for at in (999, 1000, 1009, 1010, 1099, 2000)] == [0, 4, 4, 8, 8, 14]


def test_an_agent_that_was_restarted_goes_on(
    tmp_path: Path, prints: Callable[[str, float], None], clock: Clock
) -> None:
    prints("one\n", 1000)
    attempts: Any = SimpleNamespace()
    clock.now = 1500
    again = LogWatch(attempts)
    again.look([tmp_path])
    assert read(tmp_path) == [(1000, 4)]
    (tmp_path / "job.log").write_text("one\ntwo\n")
    again.look([tmp_path])
    assert read(tmp_path) == [(1000, 4), (1500, 8)]


def test_before_the_first_line_and_without_a_file_nothing_is_noted(
    tmp_path: Path, prints: Callable[[str, float], None]
) -> None:
    attempts: Any = SimpleNamespace()
    LogWatch(attempts).look([tmp_path, tmp_path / "gone"])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "job.log").symlink_to("/etc/passwd")
    LogWatch(attempts).look([tmp_path])
    assert read(tmp_path) == []


def test_marks_take_little_room_however_long_a_job_prints(
    tmp_path: Path, prints: Callable[[str, float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_times, "MOST_BYTES", 100)
    for second in range(100):
        prints("x\n", 1000 + second)
    assert (tmp_path / "job.log.times").stat().st_size <= 120
    marks = read(tmp_path)
    assert marks[-1] == (1099, 200)
    assert [mark.size for mark in marks] == [2 * (mark.at - 999) for mark in marks]


def test_what_a_job_wrote_there_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "job.log.times").write_bytes(
        b"1000 4\nx y\n-1 3\n999 5\n1001 3\n1001\n1002 9 9\n1003 " + b"9" * 30 + b"\n1004 9\n\xff\n"
    )
    assert read(tmp_path) == [(1001, 3), (1004, 9)]
    (tmp_path / "job.log.times").unlink()
    (tmp_path / "job.log.times").symlink_to("/etc/passwd")
    (tmp_path / "job.log").write_text("x")
    attempts: Any = SimpleNamespace()
    LogWatch(attempts).look([tmp_path])
    assert read(tmp_path) == []


def test_a_log_that_the_program_emptied_begins_anew(
    tmp_path: Path, prints: Callable[[str, float], None]
) -> None:
    prints("x" * 1000 + "\n", 1000)
    (tmp_path / "job.log").write_text("")
    for text, at in (("one\n", 1100), ("two\n", 1200)):
        prints(text, at)
    marks = read(tmp_path)
    assert marks == [(1100, 4), (1200, 8)]
    assert [offset(marks, at) for at in (1000, 1100, 1199)] == [0, 4, 4]


def test_a_mark_that_a_full_disk_tore_hides_no_later_ones(tmp_path: Path) -> None:
    (tmp_path / "job.log.times").write_bytes(b"1000 4\n10101010 8\n1020 9\n1030 12\n1040 1")
    assert read(tmp_path) == [(1000, 4), (1020, 9), (1030, 12)]


def test_after_a_clock_went_back_the_newer_marks_count(
    tmp_path: Path, prints: Callable[[str, float], None]
) -> None:
    for text, at in (("one\n", 1000), ("two\n", 90_000), ("three\n", 1010), ("four\n", 1020)):
        prints(text, at)
    assert read(tmp_path) == [(1000, 4), (1010, 14), (1020, 19)]


def test_with_a_kept_log_each_time_says_how_much_came_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = [Mark(1000, 4), Mark(1010, 8), Mark(1100, 14)]
    found = kept(marks, 14).marks
    assert [(mark.at, mark.left) for mark in found] == [(1000, 10), (1010, 6), (1100, 0)]
    monkeypatch.setattr(log_times, "KEPT_MARKS", 2)
    assert [mark.at for mark in kept(marks, 14).marks] == [1000, 1100]
    assert kept([], 14).marks == []
