"""A file that is replaced has its old content or the new one, and nothing is left beside it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from trainyard_job.common import files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, by the name it had then."""
    names: list[str] = []
    real = os.fsync

    def noting(descriptor: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return names


def test_a_reader_sees_the_old_content_until_all_of_the_new_one_is_there(path: Path) -> None:
    path.write_text("old")
    with files.replacing(path, durable=False) as stream:
        stream.write(b"half")
        stream.flush()
        assert path.read_text() == "old"
        stream.write(b" and half")
    assert path.read_text() == "half and half"
    assert os.listdir(path.parent) == [path.name]


def half(path: Path, error: BaseException) -> None:
    with files.replacing(path, durable=True) as stream:
        stream.write(b"half")
        raise error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    path: Path, error: BaseException
) -> None:
    path.write_text("old")
    with pytest.raises(type(error)):
        half(path, error)
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == [path.name]


def test_a_rename_that_fails_leaves_nothing_beside_the_file(path: Path) -> None:
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        files.write_text(path, "text", durable=False)
    assert os.listdir(path.parent) == [path.name]


def test_a_directory_that_is_not_there_is_the_error_that_is_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.write_text(tmp_path / "none" / "report.json", "text", durable=False)


def test_a_durable_content_is_synced_before_it_has_the_name(path: Path, synced: list[str]) -> None:
    files.write_text(path, "kept", durable=False)
    assert synced == []
    files.write_json(path, {"step": 1})
    assert synced == [f".report.json.{os.getpid()}"]
    assert json.loads(path.read_text()) == {"step": 1}


def test_a_new_file_has_the_mode_of_any_other_new_file(path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_text(path, "text", durable=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
