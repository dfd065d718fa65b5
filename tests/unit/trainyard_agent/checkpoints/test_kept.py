"""Copies of what a program saved: whole or not there, whatever it does to its own file later."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN
from tests.support.dying import dies
from tests.support.foreign import archive, hugging_face, step_of_archive

from trainyard_agent.checkpoints import keeping
from trainyard_agent.checkpoints.keeping import Unsteady, take
from trainyard_agent.checkpoints.kept import Kept, Save, copies, newest, stores
from trainyard_agent.checkpoints.patterns import Match, look
from trainyard_agent.checkpoints.torn import Torn
from trainyard_agent.checkpoints.verifying import verify


def save(**changes: Any) -> Save:
    values = {
        "run_id": RUN, "attempt": 1, "step": 7, "counted": False, "ranks": 2, "links": False,
        "pause": lambda: None, **changes,
    }  # fmt: skip
    return Save(**values)


def snapshot(root: Path, body: bytes = archive(7), name: str = "work/snapshot.pt") -> Match:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(body)
    match = look(root, name)
    assert match is not None
    return match


def test_a_copy_is_a_checkpoint_that_verifies_and_says_where_it_is_from(tmp_path: Path) -> None:
    made = take(tmp_path, snapshot(tmp_path), save())
    manifest, digests = verify(made.path, RUN)
    assert [*digests] == ["work/snapshot.pt"]
    assert (manifest.step, made.source.path, made.source.directory) == (
        7,
        "work/snapshot.pt",
        False,
    )
    assert made.path.name == "save-000000000001-step-000000000007-attempt-1"
    (store,) = stores(tmp_path)
    assert [one.path for one in copies(tmp_path / store)] == [made.path]


def test_a_copy_stays_when_the_program_writes_its_file_anew(tmp_path: Path) -> None:
    made = take(tmp_path, snapshot(tmp_path), save())
    with open(tmp_path / "work/snapshot.pt", "r+b") as again:  # the same inode, as torch.save does
        again.truncate(100)
    verify(made.path, RUN)
    assert step_of_archive(made.path / "work/snapshot.pt") == 7


def test_a_link_is_made_only_where_the_program_promises_to_rename(tmp_path: Path) -> None:
    inode = (look(tmp_path, "work/snapshot.pt"), snapshot(tmp_path))[1]
    own = (tmp_path / "work/snapshot.pt").stat().st_ino
    assert (take(tmp_path, inode, save()).path / "work/snapshot.pt").stat().st_ino != own
    linked = take(tmp_path, inode, save(links=True))
    assert (linked.path / "work/snapshot.pt").stat().st_ino == own
    assert linked.source.linked


def test_a_copy_has_the_mode_and_the_times_of_the_original(tmp_path: Path) -> None:
    snapshot(tmp_path)
    path = tmp_path / "work/snapshot.pt"
    path.chmod(0o640)
    os.utime(path, (5, 6))
    match = look(tmp_path, "work/snapshot.pt")
    assert match is not None
    about = (take(tmp_path, match, save()).path / "work/snapshot.pt").stat()
    assert (about.st_mode & 0o777, about.st_mtime_ns) == (0o640, 6 * 10**9)


def test_a_directory_is_copied_with_all_its_files(tmp_path: Path) -> None:
    hugging_face(tmp_path / "work/checkpoint-7", 7)
    match = look(tmp_path, "work/checkpoint-7")
    assert match is not None
    made = take(tmp_path, match, save())
    assert made.source.directory
    assert {item.path for item in made.manifest.files} == {file.name for file in match.files}


def test_copies_are_counted_where_no_step_is_known(tmp_path: Path) -> None:
    for number in (1, 2):
        made = take(tmp_path, snapshot(tmp_path, archive(number)), save(counted=True))
        assert (made.number, made.manifest.step, made.source.counted) == (number, number, True)


def nothing_is_left(root: Path) -> bool:
    return not any(path.is_file() for path in (root / "watched").rglob("*"))


def test_what_is_torn_is_not_kept(tmp_path: Path) -> None:
    match = snapshot(tmp_path, archive(7)[:-30])
    with pytest.raises(Torn):
        take(tmp_path, match, save())
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("change", ["written", "removed", "replaced"])
def test_what_changes_while_it_is_copied_is_not_kept(tmp_path: Path, change: str) -> None:
    match, path = snapshot(tmp_path, b"\x80raw" * 1000), tmp_path / "work/snapshot.pt"

    def meddle() -> None:
        if path.exists() and change == "removed":
            path.unlink()
        elif path.exists():
            path.write_bytes(b"\x80raw" * (999 if change == "replaced" else 1001))

    with pytest.raises(Unsteady):
        take(tmp_path, match, save(pause=meddle))
    assert nothing_is_left(tmp_path)


def test_a_format_that_proves_nothing_is_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two saves of one size within a tick of the clock: only the content tells them apart."""
    match, path = snapshot(tmp_path, b"\x80old" * 1000), tmp_path / "work/snapshot.pt"
    at = path.stat().st_mtime_ns
    prove = keeping.formats.prove

    def meanwhile(*args: Any, **kwargs: Any) -> bool:
        path.write_bytes(b"\x80new" * 1000)
        os.utime(path, ns=(at, at))
        return prove(*args, **kwargs)

    monkeypatch.setattr(keeping.formats, "prove", meanwhile)
    with pytest.raises(Unsteady, match="changed while it was copied"):
        take(tmp_path, match, save())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.ESTALE])
def test_an_error_of_the_disk_leaves_nothing_and_harms_no_older_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    before = take(tmp_path, snapshot(tmp_path), save())
    match = snapshot(tmp_path, archive(8))

    def refuse(*_: Any) -> bool:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(keeping, "copy_open", refuse)
    with pytest.raises(OSError, match=os.strerror(code)):
        take(tmp_path, match, save())
    assert [one.path for one in copies(before.path.parent)] == [before.path]
    assert not [*before.path.parent.glob(".tmp-*")]


@pytest.mark.real
def test_a_kill_at_any_line_leaves_the_older_copy_or_the_new_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of the module is once the last that ran."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # what a process wrote outlives its end
    line = 0
    ended = False
    while not ended:
        root, line = tmp_path / str(line), line + 1
        before = take(root, snapshot(root, archive(1)), save(step=1))
        match = snapshot(root, archive(2))
        ended = not dies(keeping.__file__, line, partial(take, root, match, save(step=2)))
        found = newest(before.path.parent)
        assert found is not None
        verify(found.path, RUN)
        assert step_of_archive(found.path / "work/snapshot.pt") == found.manifest.step
        after: Kept = take(root, snapshot(root, archive(3)), save(step=3))
        assert newest(before.path.parent) == after
        assert not [*before.path.parent.glob(".tmp-*")]
    assert line > 60
