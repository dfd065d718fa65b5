"""A log is read piece by piece, whatever its job does to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainyard_agent.jobs import growing_file
from trainyard_agent.jobs.growing_file import GrowingFile, Lines


def test_what_is_new_is_read_once_and_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    file = GrowingFile(tmp_path, path)
    with pytest.raises(FileNotFoundError):
        file.read()
    path.write_bytes(b"one\n")
    assert (file.read(), file.read()) == (b"one\n", b"")
    with path.open("ab") as stream:
        stream.write(b"x" * (growing_file.LOOK_BYTES + 5))
    assert [len(file.read()) for _ in range(3)] == [growing_file.LOOK_BYTES, 5, 0]


def test_a_log_that_is_far_ahead_is_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"x" * (2 * growing_file.BEHIND_BYTES) + b"\nstep 5\n")
    assert GrowingFile(tmp_path, path).read().endswith(b"step 5\n")


def test_a_log_that_was_cut_or_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"one two three\n")
    file = GrowingFile(tmp_path, path)
    file.read()
    path.write_bytes(b"four\n")
    assert file.read() == b"four\n"
    (tmp_path / "new").write_bytes(b"a longer one than that was\n")
    os.replace(tmp_path / "new", path)
    assert file.read() == b"a longer one than that was\n"


def test_a_pipe_or_a_link_in_the_place_of_a_log_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    os.mkfifo(path)
    with pytest.raises(OSError, match="regular"):
        GrowingFile(tmp_path, path).read()
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(OSError):
        GrowingFile(tmp_path, path).read()


def test_lines_end_by_a_return_too_and_may_come_in_pieces() -> None:
    lines = Lines()
    assert lines.of(b"step 1") == []
    assert lines.of(b"2\nbar 1/2\rbar 2/2") == ["step 12", "bar 1/2"]
    assert lines.unended() == "bar 2/2"
    assert lines.of(b"\xff\x00\n") == ["bar 2/2\ufffd\x00"]


def test_a_line_of_megabytes_is_not_gathered() -> None:
    lines = Lines()
    for _ in range(100):
        assert lines.of(b"x" * growing_file.LOOK_BYTES) == []
        assert len(lines.unended()) <= growing_file.LOOK_BYTES
