"""A path of the shared filesystem means the same to a local node's programs, or nothing at all."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard_local.nodes import shared_mount

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    shared_mount._threads.clear()
    yield
    for thread in shared_mount._threads.values():
        if thread is not None:
            thread.shutdown()
    shared_mount._threads.clear()


def printed(shared: Path, at: str, *argv: str) -> str:
    program = shared_mount.popen(argv, shared, at, stdout=subprocess.PIPE)
    return program.communicate()[0].decode()


def test_programs_find_the_directory_at_the_path_and_nobody_else_does(tmp_path: Path) -> None:
    shared, at = tmp_path / "stands-for-it", str(tmp_path / "mnt/fsx")
    shared.mkdir()
    (shared / "data.txt").write_text("tokens")
    if shared_mount._thread(shared, at) is None:
        pytest.skip("this machine permits no mount namespaces")
    assert printed(shared, at, "cat", f"{at}/data.txt") == "tokens"
    assert list(Path(at).iterdir()) == []
    printed(shared, at, "touch", f"{at}/result")
    assert (shared / "result").exists()


def test_two_clusters_have_each_their_own_at_the_same_path(tmp_path: Path) -> None:
    at = str(tmp_path / "fsx")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    if shared_mount._thread(tmp_path / "a", at) is None:
        pytest.skip("this machine permits no mount namespaces")
    assert [printed(tmp_path / name, at, "cat", f"{at}/name") for name in ("a", "b")] == ["a", "b"]


def test_a_directory_that_was_made_anew_is_mounted_anew(tmp_path: Path) -> None:
    shared, at = tmp_path / "a", str(tmp_path / "fsx")
    if shared_mount._thread(shared, at) is None:
        pytest.skip("this machine permits no mount namespaces")
    shared.rmdir()
    shared.mkdir()
    (shared / "name").write_text("new")
    assert printed(shared, at, "cat", f"{at}/name") == "new"


def test_nodes_know_each_other_by_name_and_the_machine_does_not(tmp_path: Path) -> None:
    shared, at, hosts = tmp_path / "a", str(tmp_path / "fsx"), tmp_path / "hosts"
    hosts.write_text("127.0.0.7 q-st-nodes-1\n")
    if shared_mount._thread(shared, at) is None:
        pytest.skip("this machine permits no mount namespaces")
    argv = ("getent", "hosts", "q-st-nodes-1")
    program = shared_mount.popen(argv, shared, at, hosts=hosts, stdout=subprocess.PIPE)
    assert program.communicate()[0].decode().split() == ["127.0.0.7", "q-st-nodes-1"]
    assert "q-st-nodes-1" not in Path("/etc/hosts").read_text()
    assert printed(shared, at, "cat", "/etc/hosts") == Path("/etc/hosts").read_text()


def test_where_nothing_may_be_mounted_there_is_nothing_at_the_path_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(shared: Path, at: str, hosts: Path | None) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(shared_mount, "_mount", refuse)
    with caplog.at_level(logging.WARNING):
        assert printed(tmp_path, "/nowhere/fsx", "echo", "runs") == "runs\n"
    assert "nothing at /nowhere/fsx" in caplog.text
    assert not os.path.exists("/nowhere")
