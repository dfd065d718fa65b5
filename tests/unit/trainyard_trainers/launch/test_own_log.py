"""A rank's output is in a file of its own, and in no way of the program's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainyard_trainers.launch import own_log

SAY = "from trainyard_trainers.launch import own_log; own_log.take()"


def said(directory: Path, code: str, **variables: str) -> tuple[int, str]:
    """Exit code, and what the launcher's own output has of it."""
    given = {own_log.DIRECTORY: str(directory), "RANK": "3", **variables}
    done = subprocess.run(
        [sys.executable, "-u", "-c", f"{SAY}\n{code}"],
        env={**os.environ, **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.real
def test_both_streams_and_what_the_program_starts_write_into_the_ranks_file(tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
print("out é")
print("err", file=sys.stderr)
os.write(1, b"raw\\n")
subprocess.run(["sh", "-c", "echo shell; echo more >&2"])
sys.stdout.buffer.write(b"bytes\\n")
print(sys.stdout.name, sys.stdout.fileno(), sys.stderr.errors)
own_log.take()
print("RANK" in os.environ, own_log.DIRECTORY in os.environ)
"""
    assert said(tmp_path, code) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["rank-3.log"]
    lines = (tmp_path / "rank-3.log").read_text().splitlines()
    assert lines == [
        *("out é", "err", "raw", "shell", "more", "bytes"),
        "<stdout> 1 backslashreplace",
        "True False",
    ]


@pytest.mark.real
def test_a_program_that_runs_once_on_the_node_has_a_file_without_a_rank(tmp_path: Path) -> None:
    code = "print('alone')"
    before = "own_log.without_ranks(); own_log.take()\n"
    given = {own_log.DIRECTORY: str(tmp_path), "RANK": "3"}
    subprocess.run(
        [sys.executable, "-c", f"{SAY.partition(';')[0]}; {before}{code}"],
        env={**os.environ, **given},
        timeout=240,
        check=True,
    )
    assert (tmp_path / "program.log").read_text() == "alone\n"


@pytest.mark.real
def test_without_a_directory_or_a_rank_output_stays_where_it_was(tmp_path: Path) -> None:
    assert said(tmp_path, "print('x')", RANK="") == (0, "x\n")
    assert said(Path(), "print('x')", **{own_log.DIRECTORY: ""}) == (0, "x\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.real
def test_a_file_that_cannot_be_made_is_told_once_and_the_program_goes_on(tmp_path: Path) -> None:
    (tmp_path / "rank-3.log").symlink_to("/etc/passwd")
    code, text = said(tmp_path, "print('x')")
    assert code == 0
    assert "what this rank prints is in the job's log alone" in text
    assert text.endswith("x\n")


@pytest.mark.real
def test_what_the_file_cannot_take_goes_where_it_went_before(tmp_path: Path) -> None:
    """A limit of the file's size acts as a full disk does."""
    program = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (6, 6))
for number in range(4):
    print("line", number)
"""
    code, text = said(tmp_path, program)
    kept = (tmp_path / "rank-3.log").read_text()
    assert (code, kept + text) == (0, "line 0\nline 1\nline 2\nline 3\n")
    assert len(kept) == 6


@pytest.mark.real
def test_a_rank_that_kills_itself_has_lost_no_line(tmp_path: Path) -> None:
    code = "import os\nfor number in range(100): print(number)\nos.kill(os.getpid(), 9)"
    assert said(tmp_path, code)[0] == -9
    assert (tmp_path / "rank-3.log").read_text().split() == [str(n) for n in range(100)]
