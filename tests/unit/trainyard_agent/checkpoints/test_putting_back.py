"""Before the next attempt the program finds its newest whole checkpoint, and nothing torn."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN
from tests.support.dying import dies
from tests.support.foreign import archive, hugging_face, step_of_archive

from trainyard_agent.checkpoints import putting_back
from trainyard_agent.checkpoints.keeping import take
from trainyard_agent.checkpoints.kept import Kept, Save
from trainyard_agent.checkpoints.patterns import look
from trainyard_agent.checkpoints.putting_back import PutBack, put_back

SAVE = Save(RUN, 1, 0, False, 2, False, lambda: None)
NAMES = ["snapshot.pt", "checkpoint-*", "old.bin"]


def write(root: Path, name: str, body: bytes, at: int) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(body)
    os.utime(root / name, (at, at))


def keep(root: Path, name: str, step: int) -> Kept:
    match = look(root, name)
    assert match is not None
    return take(root, match, SAVE._replace(step=step))


def mend(root: Path, trusts: bool = False, **given: Any) -> list[PutBack]:
    return put_back(root, NAMES, attempt=1, ranks=2, trusts=lambda _: trusts, **given)


def test_a_torn_file_is_set_aside_and_the_copy_put_back(tmp_path: Path) -> None:
    write(tmp_path, "work/snapshot.pt", archive(5), 5)
    keep(tmp_path, "work/snapshot.pt", 5)
    torn = archive(6)[:-40]
    write(tmp_path, "work/snapshot.pt", torn, 6)
    (done,) = mend(tmp_path)
    assert (done.source, done.set_aside) == ("work/snapshot.pt", "work/.torn-attempt-1.snapshot.pt")
    assert "it ends early" in done.reason
    assert done.kept is not None
    assert done.kept.manifest.step == 5
    assert step_of_archive(tmp_path / "work/snapshot.pt") == 5
    assert (tmp_path / done.set_aside).read_bytes() == torn, "nothing that a user made is lost"
    assert mend(tmp_path) == [], "once is enough"


@pytest.mark.parametrize("lost", ["torn", "missing"])
def test_the_newest_copy_is_put_back_and_not_the_one_with_the_largest_step(
    tmp_path: Path, lost: str
) -> None:
    for at, (step, counted) in enumerate([(33, False), (0, True), (13, False), (0, True)], 1):
        write(tmp_path, "work/snapshot.pt", archive(at), at)
        match = look(tmp_path, "work/snapshot.pt")
        assert match is not None
        take(tmp_path, match, SAVE._replace(attempt=1 + at // 2, step=step, counted=counted))
    if lost == "torn":
        write(tmp_path, "work/snapshot.pt", archive(5)[:-40], 5)
    else:
        (tmp_path / "work/snapshot.pt").unlink()
    (done,) = mend(tmp_path)
    assert done.kept is not None
    assert (done.kept.number, done.kept.manifest.step, done.kept.source.counted) == (4, 4, True)
    assert step_of_archive(tmp_path / "work/snapshot.pt") == 4


def test_a_whole_newer_file_stays(tmp_path: Path) -> None:
    write(tmp_path, "work/snapshot.pt", archive(5), 5)
    keep(tmp_path, "work/snapshot.pt", 5)
    write(tmp_path, "work/snapshot.pt", archive(6), 6)
    assert mend(tmp_path) == []
    assert step_of_archive(tmp_path / "work/snapshot.pt") == 6


def test_nothing_is_put_or_renamed_behind_a_link_of_the_programs(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    write(root, "work/out/snapshot.pt", archive(5), 5)
    keep(root, "work/out/snapshot.pt", 5)
    write(elsewhere, "snapshot.pt", archive(9), 9)
    shutil.rmtree(root / "work/out")
    (root / "work/out").symlink_to(elsewhere)
    assert put_back(root, ["out/*.pt"], attempt=1, ranks=2, trusts=lambda _: False) == []
    assert os.listdir(elsewhere) == ["snapshot.pt"]
    assert step_of_archive(elsewhere / "snapshot.pt") == 9


def test_a_directory_that_is_half_written_over_makes_way_for_its_copy(tmp_path: Path) -> None:
    for name in ("model.pt", "optimizer.pt"):
        write(tmp_path, f"work/checkpoint-1/{name}", archive(1), 1)
    keep(tmp_path, "work/checkpoint-1", 1)
    write(tmp_path, "work/checkpoint-1/model.pt", archive(2), 2)
    (done,) = mend(tmp_path)
    assert "nothing shows that it was complete" in done.reason
    for name in ("model.pt", "optimizer.pt"):
        assert step_of_archive(tmp_path / "work/checkpoint-1" / name) == 1
    assert step_of_archive(tmp_path / done.set_aside / "model.pt") == 2


def test_an_older_whole_file_makes_way(tmp_path: Path) -> None:
    write(tmp_path, "work/snapshot.pt", archive(5), 5)
    keep(tmp_path, "work/snapshot.pt", 5)
    write(tmp_path, "work/snapshot.pt", archive(4), 4)
    (done,) = mend(tmp_path)
    assert "older than the newest whole one" in done.reason
    assert step_of_archive(tmp_path / "work/snapshot.pt") == 5


@pytest.mark.parametrize("name", ["work/snapshot.pt", "output/checkpoint-5"])
def test_what_the_program_deleted_is_put_back(tmp_path: Path, name: str) -> None:
    if name.endswith(".pt"):
        write(tmp_path, name, archive(5), 5)
    else:
        hugging_face(tmp_path / name, 5)
    before = look(tmp_path, name)
    keep(tmp_path, name, 5)
    shutil.rmtree((tmp_path / name).parent)
    (done,) = mend(tmp_path)
    assert (done.reason, done.set_aside) == ("it is missing", "")
    assert look(tmp_path, name) == before
    assert mend(tmp_path) == []


def test_of_numbered_directories_the_torn_one_goes_and_the_whole_one_stays(tmp_path: Path) -> None:
    hugging_face(tmp_path / "work/checkpoint-5", 5)
    keep(tmp_path, "work/checkpoint-5", 5)
    torn = hugging_face(tmp_path / "work/checkpoint-6", 6)
    (torn / "trainer_state.json").unlink()
    (done,) = mend(tmp_path)
    assert (done.source, done.kept) == ("work/checkpoint-6", None)
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == [
        ".torn-attempt-1.checkpoint-6",
        "checkpoint-5",
    ]


def test_a_torn_first_save_is_set_aside_where_there_is_no_copy(tmp_path: Path) -> None:
    write(tmp_path, "work/snapshot.pt", archive(1)[:100], 1)
    (done,) = mend(tmp_path)
    assert (done.kept, (tmp_path / "work/snapshot.pt").exists()) == (None, False)


def test_what_proves_nothing_makes_way_for_what_was_seen_complete(tmp_path: Path) -> None:
    write(tmp_path, "work/old.bin", b"\x80five", 5)
    assert mend(tmp_path) == [], "nothing better is known"
    keep(tmp_path, "work/old.bin", 5)
    write(tmp_path, "work/old.bin", b"\x80si", 6)
    assert mend(tmp_path, trusts=True) == [], "the program renames, so it is complete"
    (done,) = mend(tmp_path)
    assert "nothing shows that it was complete" in done.reason
    assert (tmp_path / "work/old.bin").read_bytes() == b"\x80five"


def test_a_damaged_copy_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    for step in (5, 6):
        write(tmp_path, "work/snapshot.pt", archive(step), step)
        newest = keep(tmp_path, "work/snapshot.pt", step)
    (newest.path / "work/snapshot.pt").write_bytes(b"rotten")
    (tmp_path / "work/snapshot.pt").unlink()
    (done,) = mend(tmp_path)
    assert done.kept is not None
    assert step_of_archive(tmp_path / "work/snapshot.pt") == 5


def test_what_was_judged_before_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path, "work/snapshot.pt", archive(5), 5)
    keep(tmp_path, "work/snapshot.pt", 5)
    write(tmp_path, "work/snapshot.pt", archive(6), 6)
    match = look(tmp_path, "work/snapshot.pt")
    assert match is not None
    assert mend(tmp_path, judged={match.signature: None}) == []
    (done,) = mend(tmp_path, judged={match.signature: "it was cut"})
    assert done.reason == "it was cut"


def test_every_torn_one_has_a_name_of_its_own(tmp_path: Path) -> None:
    for count in range(3):
        write(tmp_path, "work/snapshot.pt", archive(1)[: 50 + count], 1)
        mend(tmp_path)
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == [
        ".torn-attempt-1-2.snapshot.pt",
        ".torn-attempt-1-3.snapshot.pt",
        ".torn-attempt-1.snapshot.pt",
    ]


@pytest.mark.real
@pytest.mark.parametrize("name", ["work/snapshot.pt", "work/checkpoint-5"])
def test_a_kill_at_any_line_and_again_ends_as_if_there_had_been_none(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # what a process wrote outlives its end
    line, ended = 0, False
    while not ended:
        root, line = tmp_path / str(line), line + 1
        if name.endswith(".pt"):
            write(root, name, archive(5), 5)
        else:
            hugging_face(root / name, 5)
        whole = look(root, name)
        keep(root, name, 5)
        torn = root / (name if name.endswith(".pt") else f"{name}/optimizer.pt")
        torn.write_bytes(archive(6)[:77])
        ended = not dies(putting_back.__file__, line, partial(mend, root))
        mend(root)
        assert look(root, name) == whole, f"killed at line {line} of those that run"
        (aside,) = (root / "work").glob(".torn-attempt-1*")
        body = aside if aside.is_file() else aside / "optimizer.pt"
        assert body.read_bytes() == archive(6)[:77]
        assert not [*(root / "work").glob(".putting-back*")]
    assert line > 40


@pytest.mark.parametrize(
    "path", ["../../outside/evil.pt", "work/../../../outside/evil.pt", "attempts/2/bundle.json"]
)
def test_a_copy_that_a_job_wrote_is_put_back_only_where_programs_save(
    tmp_path: Path, path: str
) -> None:
    root = tmp_path / "runs" / "run"
    write(root, "work/snapshot.pt", archive(5), 5)
    made = keep(root, "work/snapshot.pt", 5)
    manifest = made.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("work/snapshot.pt", path))
    for place in (made.path / path, root / "watched" / "outside" / "evil.pt"):
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "work/snapshot.pt", place)
    (root / "work/snapshot.pt").unlink()
    (tmp_path / "outside").mkdir()
    (root / "attempts" / "2").mkdir(parents=True)
    assert mend(root) == []
    assert [*(tmp_path / "outside").iterdir(), *(root / "attempts" / "2").iterdir()] == []
