"""A broken or hostile job's files are data to the agent. It follows no link and outlives them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, commit

from trainyard_agent.checkpoints import export, export_plan
from trainyard_agent.checkpoints.findings import look
from trainyard_agent.checkpoints.pruning import remove
from trainyard_agent.checkpoints.scanning import scan
from trainyard_agent.checkpoints.verifying import NotWhole, verify
from trainyard_agent.host import job_files
from trainyard_agent.jobs.fence import raise_fence
from trainyard_agent.jobs.traces import read_tail

SECRET = b"not the job's"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_bytes(SECRET)
    (directory / "job.log").write_bytes(SECRET)
    return directory


def name_in_manifest(directory: Path, path: str, body: bytes) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"] = [
        {"path": path, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    ]
    (directory / "manifest.json").write_text(json.dumps(manifest))


def linked_file(directory: Path, outside: Path) -> None:
    (directory / "linked").symlink_to(outside / "secret")
    name_in_manifest(directory, "linked", SECRET)


def linked_directory(directory: Path, outside: Path) -> None:
    (directory / "linked").symlink_to(outside)
    name_in_manifest(directory, "linked/secret", SECRET)


def pipe(directory: Path, _: Path) -> None:
    os.mkfifo(directory / "pipe")
    name_in_manifest(directory, "pipe", b"")


def linked_whole(directory: Path, outside: Path) -> None:
    directory.rename(outside / "moved")
    directory.symlink_to(outside / "moved")


@pytest.mark.parametrize("trick", [linked_file, linked_directory, pipe, linked_whole])
def test_a_checkpoint_that_is_not_made_of_files_of_its_own_is_not_whole(
    tmp_path: Path, outside: Path, trick: Callable[[Path, Path], None]
) -> None:
    directory = commit(tmp_path / "run", 10)
    verify(directory, RUN)
    trick(directory, outside)
    with pytest.raises(NotWhole):
        verify(directory, RUN)
    (finding,), _ = scan(tmp_path / "run", "checkpoints", RUN, {})
    assert finding.status == "rejected"
    assert export_plan.make_plan(tmp_path / "run", RUN, "checkpoints", "all").items == ()


def test_names_that_are_no_checkpoints_are_left_alone(tmp_path: Path) -> None:
    commit(tmp_path, 10)
    for name in (
        "step-999999999999-attempt-99999999999999999999",
        "step-1-attempt-1",
        "-rf",
        "a\nb",
        "step-٠٠٠٠٠٠٠٠٠٠٠١-attempt-1",
    ):
        (tmp_path / "checkpoints" / name).mkdir()
    (tmp_path / "checkpoints" / "step-000000000020-attempt-1").write_text("a file")
    findings, _ = scan(tmp_path, "checkpoints", RUN, {})
    assert [finding.step for finding in findings] == [10]


def test_a_checkpoint_that_vanishes_while_it_is_verified_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = commit(tmp_path, 10)

    def verify_and_lose(path: Path, run_id: str) -> Any:
        found = verify(path, run_id)
        remove(path)
        return found

    monkeypatch.setattr("trainyard_agent.checkpoints.findings.verify", verify_and_lose)
    assert look(directory, f"checkpoints/{directory.name}", RUN, "") is None


def test_a_checkpoint_that_cannot_be_removed_is_kept_and_the_watch_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = commit(tmp_path, 10)

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("trainyard_agent.checkpoints.pruning.os.rename", refuse)
    remove(directory)
    verify(directory, RUN)


def test_logs_that_a_job_replaced_are_neither_exported_nor_shown(
    tmp_path: Path, outside: Path
) -> None:
    attempts = tmp_path / "attempts"
    for number in ("1", "2", "4", "x\udcff"):
        (attempts / number).mkdir(parents=True)
    (attempts / "1/job.log").write_text("mine\n")
    (attempts / "2/job.log").symlink_to(outside / "secret")
    (attempts / "3").symlink_to(outside)
    os.mkfifo(attempts / "4/job.log")
    (attempts / "x\udcff/job.log").write_text("?")
    assert export._logs(tmp_path) == [attempts / "1/job.log"]
    assert read_tail(attempts / "1/job.log", 100) == "mine\n"
    assert read_tail(attempts / "2/job.log", 100) == ""
    assert read_tail(attempts / "4/job.log", 100) == ""
    with pytest.raises(OSError, match="Not a directory"):
        job_files.read_tail(tmp_path, attempts / "3/job.log", 100)


def test_the_fence_is_never_written_through_a_link_that_a_job_left(
    tmp_path: Path, outside: Path
) -> None:
    (tmp_path / ".fence.tmp").symlink_to(outside / "secret")
    before = (outside / "secret").read_bytes()
    raise_fence(tmp_path, 3)
    assert (tmp_path / "fence").read_text() == "3\n"
    assert (outside / "secret").read_bytes() == before
    (tmp_path / "fence.lock").unlink()
    (tmp_path / "fence.lock").symlink_to(outside / "new")
    with pytest.raises(OSError, match="symbolic links"):
        raise_fence(tmp_path, 4)
    assert not (outside / "new").exists()
