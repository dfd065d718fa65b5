"""What ranks print reaches the job's log in whole lines, and nothing of it hinders a rank."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from trainyard_trainers.launch import relay
from trainyard_trainers.launch.relay import Relay


class Log:
    """The job's log as its reader sees it, through a pipe."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.body = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while chunk := os.read(self.reader, 65536):
            self.body += chunk

    def whole(self) -> str:
        """All of it, when nobody writes any more."""
        os.close(self.writer)
        self._thread.join(60)
        return self.body.decode()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    os.close(made.reader)


def prints(directory: Path, rank: int, text: str) -> None:
    with open(directory / f"rank-{rank}.log", "a") as stream:
        stream.write(text)


def test_lines_come_whole_and_a_piece_waits_for_its_end(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "PIECE_SECONDS", 3600)
    passing = Relay(tmp_path, 2, log.writer).start()
    prints(tmp_path, 0, "one\nha")
    eventually("the line is passed on", lambda: log.body == b"one\n")
    prints(tmp_path, 1, "10%\r20%\r")
    eventually("a progress bar's line ends with its return", lambda: b"20%\r" in log.body)
    prints(tmp_path, 0, "lf\n")
    eventually("the piece came with its end", lambda: log.body == b"one\n10%\r20%\rhalf\n")
    prints(tmp_path, 0, "the end")
    passing.finish()
    assert log.whole() == "one\n10%\r20%\rhalf\nthe end"


def test_a_piece_that_gets_no_end_is_passed_on_after_a_while(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "PIECE_SECONDS", 0.2)
    passing = Relay(tmp_path, 1, log.writer).start()
    prints(tmp_path, 0, "Continue? ")
    eventually("the question is seen", lambda: log.body == b"Continue? ")
    passing.finish()
    assert log.whole() == "Continue? "


def test_a_line_of_megabytes_is_passed_on_in_pieces(tmp_path: Path, log: Log) -> None:
    text = "x" * 300_000
    passing = Relay(tmp_path, 1, log.writer).start()
    prints(tmp_path, 0, text)
    eventually("most of it is there", lambda: len(log.body) > 200_000)
    passing.finish()
    assert log.whole() == text


def test_at_the_end_all_that_was_printed_is_passed_on(tmp_path: Path, log: Log) -> None:
    for rank in range(3):
        prints(tmp_path, rank, "".join(f"{rank} {line}\n" for line in range(5000)))
    Relay(tmp_path, 3, log.writer).start().finish()
    lines = log.whole().splitlines()
    for rank in range(3):
        assert [line for line in lines if line[0] == str(rank)] == [
            f"{rank} {line}" for line in range(5000)
        ]


def test_of_a_rank_that_is_far_ahead_at_the_end_the_last_words_come_with_a_remark(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "LEFT_BYTES", 100)
    monkeypatch.setattr(relay, "_POLL_SECONDS", 3600)
    prints(tmp_path, 0, "".join(f"{line:04}\n" for line in range(1000)))
    Relay(tmp_path, 1, log.writer).start().finish()
    text = log.whole()
    assert "trainyard: 4900 bytes of rank-0.log are left out here; they are in" in text
    assert text.splitlines()[-1] == "0999"
    assert len(text) < 400


def test_nobody_waits_for_a_log_that_nobody_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "DRAIN_SECONDS", 0.1)
    reader, writer = os.pipe()
    prints(tmp_path, 0, "x\n" * 100_000)  # more than a pipe holds
    passing = Relay(tmp_path, 1, writer).start()
    passing.finish()
    left = 200_000  # whoever reads it later has all
    while left:
        left -= len(os.read(reader, left))
    os.close(reader)


def test_a_log_that_cannot_be_written_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    passing = Relay(tmp_path, 1, writer).start()
    prints(tmp_path, 0, "one\n")
    said: list[str] = []

    def told() -> bool:
        said.append(capfd.readouterr().err)
        return "cannot be passed on here (Broken pipe); all of it is in" in "".join(said)

    eventually("it is told", told)
    prints(tmp_path, 0, "two\n")
    passing.finish()
    said.append(capfd.readouterr().err)
    assert "".join(said).count("passed on") == 1
    assert (tmp_path / "rank-0.log").read_text() == "one\ntwo\n"
    os.close(writer)


def test_a_file_that_its_program_emptied_is_read_from_its_new_beginning(
    tmp_path: Path, log: Log
) -> None:
    passing = Relay(tmp_path, 1, log.writer).start()
    prints(tmp_path, 0, "a long line\n")
    eventually("it is passed on", lambda: log.body)
    (tmp_path / "rank-0.log").write_text("new\n")
    eventually("the new one, too", lambda: log.body == b"a long line\nnew\n")
    passing.finish()


def test_what_a_job_put_beside_the_files_stops_no_relay(tmp_path: Path, log: Log) -> None:
    os.mkfifo(tmp_path / "a.log")
    (tmp_path / "b.log").symlink_to("/etc/passwd")
    (tmp_path / "c.log").mkdir()
    passing = Relay(tmp_path, 2, log.writer).start()
    prints(tmp_path, 0, "one\n")
    eventually("it is passed on", lambda: log.body)
    passing.finish()
    assert log.whole() == "one\n"


def test_marks_say_how_long_each_file_was_and_their_file_stays_small(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MARK_SECONDS", 0)
    monkeypatch.setattr(relay, "MOST_MARK_BYTES", 200)
    passing = Relay(tmp_path, 2, log.writer).start()
    prints(tmp_path, 0, "one\n")
    eventually("it is noted", (tmp_path / "times").exists)
    for number in range(1, 21):
        prints(tmp_path, 1, "xx\n")
        size = f"rank-1.log {3 * number}\n"
        eventually("this is noted", lambda size=size: size in (tmp_path / "times").read_text())
    passing.finish()
    lines = (tmp_path / "times").read_text().splitlines()
    assert 3 < len(lines) < 12
    assert lines[-1].endswith(" rank-1.log 60")
    assert (tmp_path / "times").stat().st_size <= 240


def test_a_directory_that_cannot_be_made_leaves_all_in_the_jobs_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank-logs").write_text("in the way")
    assert relay.directory(tmp_path, "ip-1") is None
    assert "all ranks print into the job's log alone" in capfd.readouterr().err
