"""What a job left to read: the end of its log, and its launchers' reports."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from trainyard_agent.host import job_files
from trainyard_agent.jobs import hollow_jobs, traces
from trainyard_agent.jobs.traces import matching_lines, read_launches, read_tail


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Path) -> None:
    with (tmp_path / "job.log").open("wb") as stream:
        stream.truncate(50 * 1024**3)  # a sparse file: nobody could hold it in memory
        stream.seek(0, 2)
        stream.write(b"\nfirst line\nlast line\n")
    assert job_files.read_tail(tmp_path, tmp_path / "job.log", 10) == b"last line\n"
    assert read_tail(tmp_path / "job.log", 15) == "last line\n"


def test_a_log_is_searched_as_far_as_anybody_would_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.log"
    assert matching_lines(path, b"x", 5, 100) == ""
    path.write_bytes(b"loss 3\nother\nloss 2\r\n\xff loss 1\n" + b"y" * 300_000 + b"\n")
    assert matching_lines(path, b"loss", 9, 100) == "loss 3\nloss 2\n\ufffd loss 1"
    assert matching_lines(path, b"loss", 2, 100) == "loss 2\n\ufffd loss 1"
    assert matching_lines(path, b"loss", 9, 6) == "loss 1"
    begin = path.read_bytes().index(b"loss 2")
    assert matching_lines(path, b"loss", 9, 100, begin) == "loss 2\n\ufffd loss 1"
    assert read_tail(path, 10**6, begin).startswith("loss 2")
    monkeypatch.setattr(traces, "SEARCHED_BYTES", 300_010)
    assert matching_lines(path, b"loss", 9, 100) == "\ufffd loss 1"
    (tmp_path / "link.log").symlink_to("/etc/passwd")
    assert matching_lines(tmp_path / "link.log", b"root", 9, 100) == ""


def test_nonsense_in_launch_reports_is_no_evidence(tmp_path: Path) -> None:
    wild = {
        "node": "a",
        "ended": 1e300,
        "exitCode": "z",
        "signal": 1e9,
        "kind": [],
        "error": "half a pair: \ud800" + "x" * 9999,
    }
    for number, text in enumerate(
        ["[]", "{}", "[" * 100_000, "null", "\0", '{"node": 5}', json.dumps(wild)]
    ):
        (tmp_path / f"launch-{number}.json").write_text(text)
    os.mkfifo(tmp_path / "launch-pipe.json")
    (tmp_path / "launch-large.json").write_bytes(b" " * (job_files.SMALL_BYTES + 1))
    [launch] = read_launches(tmp_path)
    assert (launch.node, launch.exit_code, launch.signal, launch.kind) == ("a", None, None, None)
    assert str(launch.error).encode()[:16] == b"half a pair: ?xx"


def test_a_filesystem_that_fails_over_gives_no_evidence_and_does_not_end_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "launch-a.json").write_text('{"node": "a"}')
    hollow_jobs.mark(tmp_path)

    def stale(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ESTALE, "Stale file handle")

    for name in ("scandir", "listdir", "stat", "open"):
        monkeypatch.setattr(os, name, stale)
    assert read_launches(tmp_path) == []
    assert not hollow_jobs.is_marked(tmp_path)
    with pytest.raises(OSError, match="Stale"):
        traces.log_tail(tmp_path / "job.log", 100)
    assert read_tail(tmp_path / "job.log", 100) == ""
