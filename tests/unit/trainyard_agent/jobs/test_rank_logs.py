"""One rank's log, or those of a node, are read from the files that the ranks wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainyard_agent.jobs import rank_logs
from trainyard_contracts.commands import Logs

RUN = "run-01j0000000000000000000000a"


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """Two nodes of two ranks each, with ten lines of each."""
    for node in (0, 1):
        directory = tmp_path / "rank-logs" / f"ip-{node}"
        directory.mkdir(parents=True)
        for rank in (2 * node, 2 * node + 1):
            lines = "".join(f"rank {rank} line {line}\n" for line in range(10))
            (directory / f"rank-{rank}.log").write_text(lines)
    return tmp_path


def shown(
    attempt: Path, *, begin: float | None = None, limit: int = 1_000_000, **asked: object
) -> str:
    given = Logs(RUN, 1, **asked)  # type: ignore[arg-type]
    return rank_logs.tail(attempt, given, begin, limit).text


def test_a_ranks_last_lines_are_its_own(attempt: Path) -> None:
    assert shown(attempt, rank=2, lines=2) == "rank 2 line 8\nrank 2 line 9"
    assert shown(attempt, rank=0, contains=b"line 3".hex()) == "rank 0 line 3"
    assert shown(attempt, rank=9) == ""


def test_a_nodes_logs_stand_each_below_a_heading(attempt: Path) -> None:
    assert shown(attempt, node="ip-1", lines=1) == (
        "==> rank 2 on ip-1 <==\nrank 2 line 9\n\n==> rank 3 on ip-1 <==\nrank 3 line 9"
    )
    assert shown(attempt, node="ip-1", contains=b"rank 3 line 7".hex()) == (
        "==> rank 3 on ip-1 <==\nrank 3 line 7"
    )
    assert shown(attempt, node="ip-9") == ""


def test_a_program_that_runs_once_on_a_node_needs_no_heading(tmp_path: Path) -> None:
    directory = tmp_path / "rank-logs" / "ip-1"
    directory.mkdir(parents=True)
    (directory / "program.log").write_text("alone\n")
    assert shown(tmp_path, node="ip-1") == "alone"


def test_several_logs_share_the_bytes_of_an_answer(attempt: Path) -> None:
    for rank in (2, 3):
        (attempt / f"rank-logs/ip-1/rank-{rank}.log").write_text(f"{rank} xxxxxxx\n" * 5000)
    text = shown(attempt, node="ip-1", lines=10_000, limit=10_000)
    assert 9_000 < len(text) < 10_100
    assert text.count("\n2 x") == text.count("\n3 x")


def test_since_a_time_goes_by_the_nodes_marks_and_allows_for_its_clock(attempt: Path) -> None:
    size = len("rank 2 line 0\n")
    lines = [f"{1000 + 10 * line} rank-2.log {size * (line + 1)}\n" for line in range(10)]
    (attempt / "rank-logs/ip-1/times").write_text("".join(lines))
    assert shown(attempt, rank=2, begin=1085) == "rank 2 line 9"
    assert shown(attempt, rank=2, begin=1084).splitlines()[0] == "rank 2 line 8"
    assert shown(attempt, rank=3, begin=1085).splitlines()[0] == "rank 3 line 0", "no mark says"


def test_marks_that_a_job_wrote_are_passed_over(attempt: Path) -> None:
    (attempt / "rank-logs/ip-1/times").write_bytes(
        b"1000 a.log 4 b.log 2\nx a.log 5\n1010 a.log\n1020 a.log y b.log 7\n\n1030 a.log 3\n\xff\n"
    )
    assert rank_logs.marks(attempt, "ip-1") == {
        "a.log": [(1030, 3)],
        "b.log": [(1000, 2), (1020, 7)],
    }
    assert rank_logs.marks(attempt, "ip-0") == {}


def test_an_attempt_of_a_version_without_such_logs_lacks_them(tmp_path: Path) -> None:
    assert rank_logs.tail(tmp_path, Logs(RUN, 1, rank=0), None, 100).lacks
    (tmp_path / "rank-logs").mkdir()
    assert not rank_logs.tail(tmp_path, Logs(RUN, 1, rank=0), None, 100).lacks


def test_what_a_job_put_in_the_place_of_a_log_is_not_followed(
    attempt: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "rank-7.log").write_text("secret\n")
    top = attempt / "rank-logs"
    (top / "ip-1/rank-2.log").unlink()
    (top / "ip-1/rank-2.log").symlink_to(outside / "rank-7.log")
    os.mkfifo(top / "ip-1/rank-5.log")
    (top / "ip-1/rank-x.log").write_text("?")
    (top / "ip-7").symlink_to(outside)
    assert [log.rank for log in rank_logs.found(attempt)] == [0, 1, 3]
    assert shown(attempt, rank=7) == shown(attempt, rank=2) == shown(attempt, node="ip-7") == ""
    top.rename(outside / "moved")
    top.symlink_to(outside / "moved")
    assert shown(attempt, rank=3) == ""
