"""A directory that takes no files is found before the first step."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import CheckpointFailed
from trainyard_trainers.loop import writable


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def attempt(run_dir: Path, checkpoints: Path) -> Attempt:
    return Attempt("run", 1, run_dir, run_dir / "attempts" / "1", checkpoints)


def test_a_place_that_takes_no_files_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointFailed) as failed:
        writable.check(attempt(tmp_path, tmp_path / "file" / "checkpoints"), 0)
    assert "checkpoints cannot be written: rank 0: " in str(failed.value)
    assert "file/checkpoints: Not a directory; make the directory writable" in str(failed.value)


def test_a_read_only_file_system_is_refused_and_a_full_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(number: int) -> Any:
        def write(*_: object) -> int:
            raise OSError(number, os.strerror(number))

        return write

    monkeypatch.setattr(writable.os, "write", fails(errno.EROFS))
    with pytest.raises(CheckpointFailed, match="checkpoints: Read-only file system"):
        writable.check(attempt(tmp_path, tmp_path / "checkpoints"), 0)
    monkeypatch.setattr(writable.os, "write", fails(errno.ENOSPC))
    writable.check(attempt(tmp_path, tmp_path / "checkpoints"), 0)


def test_a_good_place_is_made_and_left_empty(tmp_path: Path) -> None:
    writable.check(attempt(tmp_path, tmp_path / "elsewhere" / "checkpoints"), 0)
    assert not list((tmp_path / "elsewhere" / "checkpoints").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
