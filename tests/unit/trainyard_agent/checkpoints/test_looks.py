"""What is complete is copied, what is not waits, and what cannot be copied harms nobody."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.foreign import archive, bundle, hugging_face, step_of_archive

from trainyard_agent.checkpoints import keeping, kept, looks
from trainyard_agent.checkpoints.looks import Looked, Looks
from trainyard_agent.checkpoints.putting_back import put_back
from trainyard_agent.checkpoints.verifying import verify


class Program:
    """A run whose program saves, and looks at it; `clock` is theirs."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, **watch: Any) -> None:
        self.root, self.now, self.bundle = root, 1000.0, bundle(**watch)
        self.looks = Looks(root)
        monkeypatch.setattr(looks.time, "monotonic", lambda: self.now)
        (root / "work").mkdir(parents=True, exist_ok=True)
        self.saved = 0

    def save(self, body: bytes, name: str = "snapshot.pt") -> Path:
        path = self.root / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        self.saved += 1
        os.utime(path, (self.saved, self.saved))
        return path

    def look(self, after: float = 0.0, step: int | None = None) -> Looked:
        self.now += after
        return self.looks.look(self.bundle, 1, lambda _: step)

    def steps(self) -> list[int]:
        found = [one for store in kept.stores(self.root) for one in kept.copies(self.root / store)]
        return sorted(one.manifest.step for one in found)


def test_the_step_is_the_one_of_the_moment_of_the_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, asked = Program(tmp_path, monkeypatch), list[float]()
    program.save(archive(1))
    program.looks.look(program.bundle, 1, lambda at: asked.append(at) or 7)  # type: ignore[func-returns-value]
    assert (program.steps(), asked) == ([7], [1.0])


def test_what_proves_itself_is_copied_at_once_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch)
    program.save(archive(1))
    assert len(program.look(step=7).taken) == 1
    assert program.look(100).taken == []
    program.save(archive(2))
    program.look(100, step=9)
    assert program.steps() == [7, 9]


def test_what_proves_nothing_is_copied_once_it_keeps_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch, stableSeconds=5)
    for size in range(1, 9):
        program.save(b"\x80" * size)
        assert program.look(4).taken == []
    assert len(program.look(6).taken) == 1


def test_a_directory_that_is_half_written_over_is_not_its_next_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch, pattern="last", stableSeconds=5)
    for name in ("model.pt", "optimizer.pt"):
        program.save(archive(1), f"last/{name}")
    assert len(program.look(step=1).taken) == 1
    program.save(archive(2), "last/model.pt")
    assert program.look(100, step=2).taken == []
    crashed = program.looks.last_look(program.bundle, 1, lambda _: 2, well=False)
    assert (crashed.taken, crashed.judged) == ([], {})
    program.save(archive(2), "last/optimizer.pt")
    assert len(program.look(100, step=2).taken) == 1
    program.save(archive(3), "last/model.pt")  # the only file that this program writes anew
    assert program.look(4).taken == []
    assert len(program.look(6).taken) == 1


def test_a_file_that_changes_all_the_time_is_told_of_after_a_quarter_of_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch, pattern="*.txt")
    for number in range(4):
        program.save(b"%d" % number, "state.txt")
        looked = program.look(300)
        assert bool(looked.warnings) == (number == 3)
    assert looked.taken == []
    (warning,) = looked.warnings.values()
    assert "'work/state.txt' could not be copied for 15 minutes (nothing says" in warning
    assert "complete: rename" in warning


def test_a_file_that_cannot_be_copied_is_told_of_after_a_quarter_of_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch)
    program.save(archive(1)[:-4] + b"open")

    def unsteady(*_: Any) -> None:
        raise keeping.Unsteady("it changed")

    monkeypatch.setattr(looks.keeping, "take", unsteady)
    monkeypatch.setattr(looks.formats, "glance", lambda *_: "provable")
    assert program.look().warnings == {}
    assert program.look(450).warnings == {}
    (warning,) = program.look(451).warnings.values()
    assert "could not be copied for 15 minutes" in warning


def test_a_file_that_is_open_for_ever_is_copied_when_the_job_ended_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch, pattern="*.log")
    with open(tmp_path / "work/a.log", "wb", buffering=0) as stream:
        for _ in range(20):
            stream.write(b"line\n")
            assert program.look(2).taken == []
    assert program.looks.last_look(program.bundle, 1, lambda _: 3, well=False).taken == []
    assert len(program.looks.last_look(program.bundle, 1, lambda _: 3, well=True).taken) == 1


def test_a_name_that_is_renamed_into_place_is_linked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch, complete="rename", pattern="*.bin")
    program.save(b"\x80raw", "a.bin")
    (taken,) = program.look().taken
    assert taken.source.linked


def test_a_marker_says_that_one_is_complete_and_an_old_marker_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(
        tmp_path,
        monkeypatch,
        complete="marker-file",
        marker="{name}.done",
        pattern=["*.bin", "c-*"],
    )
    program.save(b"\x80raw", "a.bin")
    assert program.look(100).taken == []
    program.save(b"", "a.bin.done")
    assert [one.source.path for one in program.look(100).taken] == ["work/a.bin"]
    program.save(b"\x80new", "a.bin")
    assert program.look(100).taken == []
    program.save(b"\x80x", "c-1/state.bin")
    assert program.look(100).taken == []
    program.save(b"", "c-1/c-1.done")
    assert [one.source.path for one in program.look(100).taken] == ["work/c-1"]


def test_a_series_keeps_its_own_copies_and_the_newest_of_many_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch, pattern="*.pt", keep=2)
    for step in range(1, 6):
        program.save(archive(step), f"step-{step}.pt")
    program.save(archive(9), "best.pt")
    assert len(program.look(step=5).taken) == 3
    assert program.steps() == [4, 5, 5]
    assert len(kept.stores(tmp_path)) == 2
    (tmp_path / "work/step-5.pt").unlink()
    assert program.look(100).taken == [], "what the program deletes is no news"
    assert program.steps() == [4, 5, 5]


def test_a_pattern_that_fits_everything_is_told_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "MOST_SERIES", 3)
    program = Program(tmp_path, monkeypatch, pattern="**/*")
    for letter in "abcdefgh":
        program.save(archive(1), f"{letter}.pt")
    looked = program.look()
    assert len(looked.taken) == 3
    assert "8 kinds of names match" in looked.warnings["too-much"]


def test_on_a_full_disk_older_copies_make_way_and_the_newest_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch)
    for step in (1, 2, 3):
        program.save(archive(step))
        program.look(100, step=step)
    monkeypatch.setattr(looks.keeping, "room_for", lambda *_: False)
    program.save(archive(4))
    looked = program.look(100, step=4)
    assert "no room for a safe copy of 'work/snapshot.pt'" in looked.warnings["no-room"]
    assert program.steps() == [3]
    monkeypatch.setattr(looks.keeping, "room_for", lambda *_: True)
    program.look(100, step=4)
    assert program.steps() == [3, 4]


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_what_cannot_be_read_now_is_copied_later_and_is_not_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    program = Program(tmp_path, monkeypatch)
    program.save(archive(1))

    def refuse(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as trouble:
        trouble.setattr(keeping, "open_inside", refuse)
        assert program.look().taken == []
        trouble.setattr(looks.formats, "open_inside", refuse)
        looked = program.looks.last_look(program.bundle, 1, lambda _: None, well=True)
        assert (looked.taken, looked.torn) == ([], {})
    assert len(program.look(100).taken) == 1


def test_at_the_end_what_is_torn_is_told_and_what_is_whole_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch, pattern="checkpoint-*")
    hugging_face(tmp_path / "work/checkpoint-5", 5)
    program.look()
    hugging_face(tmp_path / "work/checkpoint-6", 6)
    (hugging_face(tmp_path / "work/checkpoint-7", 7) / "rng_state_1.pth").unlink()
    looked = program.looks.last_look(program.bundle, 1, lambda _: None, well=False)
    assert program.steps() == [5, 6]
    assert {match.name: reason for match, reason in looked.torn.items()} == {
        "work/checkpoint-7": "work/checkpoint-7: rng_state of rank 1 is missing"
    }


def test_a_new_agent_does_not_copy_again_what_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path, monkeypatch)
    program.save(archive(1))
    program.look()
    program.looks = Looks(tmp_path)
    assert program.look(100).taken == []


# -- kill -9 at random moments -----------------------------------------------------------------

ROUNDS = 100


def saves_for_ever(path: Path, step: int) -> None:
    """A program that knows nothing: it writes one file anew, piece by piece, again and again."""
    while True:
        step += 1
        body = archive(step, 40_000)
        with open(path, "wb", buffering=0) as stream:
            for at in range(0, len(body), 4096):
                stream.write(body[at : at + 4096])
        time.sleep(random.random() * 0.01)


def looks_for_ever(root: Path) -> None:
    """An agent that looks as often as it can."""
    seen = Looks(root)
    while True:
        with contextlib.suppress(OSError):
            seen.look(bundle(), 1, lambda _: None)
        seen._tries.clear()  # no pauses: it is to be killed in its copies


def in_a_process(work: Any, *given: Any) -> int:
    child = os.fork()
    if child == 0:
        try:
            os.fsync = lambda _: None  # type: ignore[assignment]
            work(*given)
        finally:
            os._exit(0)
    return child


@pytest.mark.real
def test_kill_9_at_a_hundred_random_moments_of_a_foreign_programs_saves(tmp_path: Path) -> None:
    """It is never resumed from a torn file, and the last whole one that was kept is never lost."""
    root, seed = tmp_path, random.randrange(10**6)
    moments = random.Random(seed)
    path = root / "work/snapshot.pt"
    path.parent.mkdir()
    newest, torn, resumed = 0, 0, 0
    for round_ in range(ROUNDS):
        began = step_of_archive(path) if path.exists() else 0
        children = [
            in_a_process(saves_for_ever, path, began),
            in_a_process(looks_for_ever, root),
        ]
        try:
            time.sleep(moments.uniform(0.005, 0.06))
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        done = put_back(root, ["snapshot.pt"], attempt=round_ + 1, ranks=2, trusts=lambda _: False)
        torn += len(done)
        copies = [one for store in kept.stores(root) for one in kept.copies(root / store)]
        for copy in copies:
            verify(copy.path)
            assert step_of_archive(copy.path / "work/snapshot.pt") > 0
        here = max((step_of_archive(copy.path / "work/snapshot.pt") for copy in copies), default=0)
        assert here >= newest, f"round {round_} of seed {seed}: a kept one is lost"
        newest = here
        if copies:
            assert step_of_archive(path) >= newest, f"round {round_} of seed {seed}"
            resumed += 1
        elif path.exists():
            step_of_archive(path)
        for copy in copies[3:]:
            shutil.rmtree(copy.path)
        for aside in (root / "work").glob(".torn*"):
            aside.unlink()
    assert torn, f"no save was cut in {ROUNDS} rounds: the test shows nothing"
    assert resumed > ROUNDS / 2
