"""A file that is replaced is the old one or the whole new one, with the mode that was wanted."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import trainyard_agent
from trainyard_agent.host import atomic_file
from trainyard_agent.host.atomic_file import replace_file

PACKAGE = Path(trainyard_agent.__file__).parent
#: These move aside what is there already.
MOVES = {
    "damage.py", "pruning.py", "keeping.py", "looks.py", "putting_back.py", "image_import.py",
    "copying.py", "restorer.py",
}  # fmt: skip


def test_a_write_that_breaks_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_file.os, "fsync", broken)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    replace_file(path, b"new", durable=False)
    assert path.read_bytes() == b"new", "what the broken write left is in nobody's way"


def test_the_file_has_the_mode_that_is_asked_for_or_that_of_another(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    before = os.umask(0o022)
    try:
        replace_file(path, b"", mode=0o600)
        assert path.stat().st_mode & 0o777 == 0o600
        other.touch()
        other.chmod(0o664)
        replace_file(path, b"", like=other.stat())
        assert path.stat().st_mode & 0o777 == 0o664, "also what the umask would take away"
    finally:
        os.umask(before)


def test_a_link_that_lies_in_the_way_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".file.tmp").symlink_to(victim)
    replace_file(tmp_path / "file", b"new")
    assert (victim.read_text(), (tmp_path / "file").read_text()) == ("mine", "new")


def replaces_a_file(call: ast.Call) -> bool:
    """os.replace, or the one of a path: that of text has two arguments."""
    by_path = isinstance(call.func, ast.Attribute) and call.func.attr == "replace"
    named = ast.unparse(call.func) in ("os.replace", "os.rename")
    return named or (by_path and len(call.args) == 1 and not call.keywords)


def test_nothing_else_of_the_agent_replaces_a_file_by_hand() -> None:
    found = {
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and replaces_a_file(node)
    }
    assert found == {"atomic_file.py", *MOVES}
