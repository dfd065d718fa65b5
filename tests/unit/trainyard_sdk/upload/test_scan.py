"""What cannot arrive as it is gets refused by name, before anything is sent."""

from __future__ import annotations

import os
import socket
import unicodedata
from pathlib import Path

import pytest

from trainyard_sdk.problems import InvalidInput
from trainyard_sdk.upload import scan as scan_module
from trainyard_sdk.upload.scan import check_size, scan


def refused(root: Path) -> str:
    with pytest.raises(InvalidInput) as error:
        scan(root)
    return error.value.detail


def test_a_link_out_of_the_directory_is_refused_and_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (root / "sub").mkdir()
    (root / "sub/data").symlink_to("../../data")
    (root / "there").symlink_to("/etc/hosts")
    (root / "gone").symlink_to("nowhere")
    (root / "round").symlink_to("../project/sub")
    words = refused(root)
    assert "'sub/data' is a link out of the directory, to '../../data'; put a copy" in words
    assert "'there' is a link to '/etc/hosts', which nodes do not have" in words
    assert "'gone' is a link to 'nowhere', which is not there" in words
    assert "'round' is a link out of the directory" in words


def test_a_link_out_through_another_link_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (root / "a").symlink_to("../data")
    (root / ".trainyardignore").write_text("a\n")
    (root / "b").symlink_to("a")
    assert "'b' is a link out of the directory" in refused(root)


def test_a_link_to_what_is_left_out_is_refused(root: Path) -> None:
    (root / "model.pt").write_text("x")
    (root / "newest").symlink_to("model.pt")
    (root / ".gitignore").write_text("*.pt\n")
    assert "'newest' is a link to 'model.pt', which is left out" in refused(root)


def test_links_to_files_and_directories_of_the_tree_go_along(root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_text("x")
    (root / "empty").mkdir()
    (root / "to-directory").symlink_to("a")
    (root / "a/up").symlink_to("../to-directory/b")
    (root / "to-empty").symlink_to("empty")
    (root / "self").symlink_to(".")
    found = scan(root)
    assert [path for path, _ in found.links] == ["a/up", "self", "to-directory", "to-empty"]


def test_a_link_that_goes_down_and_up_again_is_refused_with_the_direct_way(root: Path) -> None:
    (root / "a").mkdir()
    (root / "b").mkdir()
    (root / "b/file").write_text("x")
    (root / "a/file").symlink_to("../a/../b/file")
    assert "'a/file' is a link by a detour, '../a/../b/file'; make it '../b/file'" in refused(root)


def test_names_that_cannot_go_up_are_refused_all_at_once(root: Path) -> None:
    (root / "new\nline").write_text("x")
    (root / "ok").write_text("x")
    with open(os.fsencode(root) + b"/latin-\xe9", "w"):
        pass
    words = refused(root)
    assert "'new\\nline' has a name that cannot go up: it must not contain control" in words
    assert "latin-" in words
    assert "must be UTF-8" in words


def test_names_stay_in_the_form_that_they_have(root: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "é.txt")
    composed = unicodedata.normalize("NFC", "é.txt")
    (root / decomposed).write_text("x")
    (root / composed).write_text("x")
    assert {entry.path for entry in scan(root).files} == {decomposed, composed}


@pytest.mark.real
def test_sockets_and_fifos_stay_here_and_are_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("socket")
        (root / "a.py").write_text("x")
        found = scan(root)
    assert found.skipped == ["pipe", "socket"]
    assert [entry.path for entry in found.files] == ["a.py"]


def test_a_directory_of_which_nothing_goes_up_is_there_and_empty(root: Path) -> None:
    (root / "logs").mkdir()
    (root / "logs/old.log").write_text("x")
    (root / ".gitignore").write_text("*.log\n")
    assert scan(root).directories == ["logs"]


def test_our_own_rules_win_and_defaults_give_way(root: Path) -> None:
    for name in ("model.pt", ".env", "a.py"):
        (root / name).write_text("x")
    for name in (".git", ".venv", "__pycache__", ".trainyard", "sub/.git"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text("x")
    (root / ".#a.py").symlink_to("somebody@host.1:2")
    (root / ".gitignore").write_text("*.pt\n")
    (root / ".trainyardignore").write_text(".env\n!model.pt\n!.venv/\n!.git/\n")
    found = {entry.path for entry in scan(root).files}
    assert found == {".gitignore", ".trainyardignore", "a.py", "model.pt", ".venv/file"}


def test_limits_are_told_with_what_is_largest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "data").mkdir()
    for number in range(5):
        (root / f"data/{number}").write_text("x" * 1000)
    (root / "a.py").write_text("x")
    monkeypatch.setattr(scan_module, "MOST_FILES", 5)
    with pytest.raises(InvalidInput) as error:
        check_size(scan(root))
    assert "6 files, of 5 at most. Largest: data/ 4.9 KiB, a.py 1 B." in error.value.detail
    monkeypatch.setattr(scan_module, "MOST_FILES", 50)
    monkeypatch.setattr(scan_module, "UPLOAD_BYTES", 5000)
    with pytest.raises(InvalidInput, match=r"4\.9 KiB, of 4\.9 KiB at most"):
        check_size(scan(root))
    monkeypatch.setattr(scan_module, "MOST_FILES", 1)
    with pytest.raises(InvalidInput, match="over 2 files, of 1 at most"):
        scan(root)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_named(root: Path) -> None:
    (root / "secret").mkdir()
    (root / "secret").chmod(0)
    assert "'secret' cannot be read: Permission denied" in refused(root)
    (root / "secret").chmod(0o700)
