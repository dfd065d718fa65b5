"""Images that nobody used for long go; never one that an attempt uses, or is about to."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.unit.trainyard_agent.jobs.test_images import bundle

from trainyard_agent.jobs import image_room
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.image_import import Busy, Import, alone
from trainyard_agent.jobs.image_room import ImageRoom

DAY = 86400.0


class Shared:
    """A cluster's shared filesystem with imported images, and its attempts."""

    def __init__(self, directory: Path) -> None:
        self.config = config(directory)
        self.top = Path(self.config.shared_root) / "trainyard/container-images"
        self.top.mkdir(parents=True)
        self.directory = directory
        self.known: dict[tuple[str, int], Attempt] = {}
        attempts: Any = SimpleNamespace(known=self.known)
        self.room = ImageRoom(self.config, attempts)

    def image(self, sign: str, days: float) -> Path:
        path = self.top / f"sha256-{sign * 64}.sqsh"
        path.write_bytes(b"hsqs")
        self.age(path, days)
        return path

    def age(self, path: Path, days: float) -> None:
        os.utime(path, (time.time() - days * DAY,) * 2)

    def attempt(self, sign: str, state: Any) -> None:
        number = len(self.known) + 1
        made = Attempt(RUN, number, state, self.directory / str(number), "s3://b/k")
        made.bundle = bundle(number, digest=f"sha256:{sign * 64}")
        self.known[RUN, number] = made

    def look(self) -> list[str]:
        """The images that stay, each by a sign of its digest."""
        self.room.look(self.room.used())
        return sorted(path.name[7] for path in self.top.iterdir() if path.suffix == ".sqsh")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shared:
    monkeypatch.setattr(image_room, "SHORT_OF_ROOM", 0.0)
    return Shared(tmp_path)


def test_what_was_not_used_for_long_goes_and_what_was_used_stays(shared: Shared) -> None:
    shared.image("a", 15)
    shared.image("b", 13)
    shared.image("c", 0)
    assert shared.look() == ["b", "c"]


@pytest.mark.parametrize("state", ["intent", "submitting", "submitted", "running"])
def test_the_image_of_an_attempt_that_waits_or_runs_stays_and_counts_as_used(
    shared: Shared, state: str
) -> None:
    path = shared.image("a", 400)
    shared.attempt("a", state)
    assert shared.look() == ["a"]
    assert time.time() - path.stat().st_mtime < DAY


def test_the_image_of_an_attempt_that_ended_long_ago_goes(shared: Shared) -> None:
    shared.image("a", 15)
    shared.attempt("a", "ended")
    assert shared.look() == []


def test_where_an_attempts_image_cannot_be_told_nothing_goes(shared: Shared) -> None:
    shared.image("a", 400)
    shared.attempt("b", "running")
    shared.known[RUN, 1].bundle = None
    assert shared.look() == ["a"]


def test_short_of_room_the_oldest_go_until_there_is_room(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sign, days in (("a", 5), ("b", 4), ("c", 3), ("d", 0.5)):
        shared.image(sign, days)
    left = iter([True, True, False])
    monkeypatch.setattr(ImageRoom, "_is_short", lambda _: next(left))
    assert shared.look() == ["c", "d"]
    monkeypatch.setattr(ImageRoom, "_is_short", lambda _: True)
    assert shared.look() == ["d"], "used today"


def test_room_is_what_the_filesystem_says(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.image("a", 5)
    monkeypatch.setattr(image_room, "SHORT_OF_ROOM", 1.0)
    assert shared.look() == []


def test_an_attempt_that_begins_meanwhile_keeps_its_image(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared.image("a", 15)
    real = image_room.alone

    def begins(image: Path, *, wait: bool) -> Any:
        """It has the lock just before the removal does."""
        os.utime(image)
        return real(image, wait=wait)

    monkeypatch.setattr(image_room, "alone", begins)
    assert shared.look() == ["a"]
    assert path.read_bytes() == b"hsqs"


def test_what_is_being_imported_stays(shared: Shared) -> None:
    path = shared.image("a", 15)
    half = shared.top / f".sha256-{'b' * 64}.import"
    half.mkdir()
    with alone(path), alone(half.with_name(f"sha256-{'b' * 64}.sqsh")):
        assert shared.look() == ["a"]
        assert half.exists()
    assert shared.look() == []
    assert not half.exists(), "what a killed import left"


def test_an_import_that_finds_the_image_marks_it_as_used(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainyard_agent.jobs.image_import.require_programs", lambda: None)
    path = shared.image("a", 15)
    Import("r.example/x:1", f"sha256:{'a' * 64}", path).run()
    assert shared.look() == ["a"]


def test_files_and_links_of_others_stay(shared: Shared) -> None:
    mine = shared.top / "mine.sqsh"
    mine.write_bytes(b"hsqs")
    shared.age(mine, 400)
    target = shared.directory / "secret"
    target.write_text("x")
    path = shared.image("a", 15)
    path.with_name(f".{path.stem}.lock").symlink_to(target)
    with pytest.raises(OSError):
        shared.look()
    assert target.read_text() == "x"
    path.with_name(f".{path.stem}.lock").unlink()
    shared.room.look(set())
    assert mine.exists()


def test_a_lock_that_another_has_is_busy(shared: Shared) -> None:
    path = shared.image("a", 0)
    with alone(path), pytest.raises(Busy), alone(path, wait=False):
        raise AssertionError("not reached")


def test_without_images_there_is_nothing_to_do(tmp_path: Path) -> None:
    attempts: Any = SimpleNamespace(known={})
    ImageRoom(config(tmp_path), attempts).look(set())
