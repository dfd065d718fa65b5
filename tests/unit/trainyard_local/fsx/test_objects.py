"""Files as objects and back: content, permissions, links, and nothing outside of the directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from trainyard_local.fsx.objects import Repository


def test_files_directories_and_links_come_back_as_they_were(
    repository: Repository, tmp_path: Path
) -> None:
    root, other = tmp_path / "one", tmp_path / "other"
    (root / "empty").mkdir(parents=True)
    (root / "script.sh").write_text("echo")
    (root / "script.sh").chmod(0o750)
    (root / "link").symlink_to("script.sh")
    copied = repository.export_from(root, {})
    assert (copied.done, copied.failed) == (3, [])
    other.mkdir()
    assert repository.import_into(other) == 3
    assert stat.S_IMODE((other / "script.sh").stat().st_mode) == 0o750
    assert os.readlink(other / "link") == "script.sh"
    assert (other / "empty").is_dir()


def test_only_what_changed_is_exported_again(repository: Repository, tmp_path: Path) -> None:
    known: dict[str, tuple[int, int]] = {}
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("1")
    assert repository.export_from(tmp_path, known).done == 2
    (tmp_path / "a").write_text("22")
    assert repository.export_from(tmp_path, known).done == 1


def test_a_file_that_cannot_be_an_object_fails_by_itself(
    repository: Repository, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    copied = repository.export_from(tmp_path, {})
    assert (copied.done, [name for name, _ in copied.failed]) == (1, ["pipe"])


def test_no_object_leads_out_of_the_directory(
    repository: Repository, s3: Any, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    s3.put_object(Bucket="my-archive", Key="lab/../outside", Body=b"x")
    metadata = {"file-permissions": "0120777"}
    s3.put_object(Bucket="my-archive", Key="lab/a", Body=str(tmp_path).encode(), Metadata=metadata)
    s3.put_object(Bucket="my-archive", Key="lab/a/through", Body=b"x")
    repository.import_into(root)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root"]
