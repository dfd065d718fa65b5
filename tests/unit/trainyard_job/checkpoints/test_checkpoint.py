"""A checkpoint exists whole or not at all, whoever dies when."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import checkpoints

from trainyard_contracts.files import CheckpointManifest
from trainyard_contracts.files import Progress as ProgressFile
from trainyard_job.checkpoints import checkpoint
from trainyard_job.checkpoints.checkpoint import Writer
from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import CheckpointFailed, ConfigError, Fenced
from trainyard_job.common.progress import Progress


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    run_dir = tmp_path / "run"
    (run_dir / "checkpoints").mkdir(parents=True)
    (run_dir / "fence").write_text("1")
    return Attempt(
        "run-01h00000000000000000000000",
        1,
        run_dir,
        run_dir / "attempts" / "1",
        run_dir / "checkpoints",
    )


def save(attempt: Attempt, step: int, content: bytes = b"weights") -> Path:
    writers: dict[str, Writer] = {
        "model.pt": lambda s: s.write(content),
        "ranks/0.pt": lambda s: s.write(b"own"),
    }
    return checkpoints.save(attempt, step, writers)


def test_the_manifest_is_what_the_contract_says(attempt: Attempt) -> None:
    manifest = CheckpointManifest.model_validate_json(
        (save(attempt, 5) / "manifest.json").read_bytes()
    )
    assert (manifest.schema_name, manifest.run_id, manifest.attempt, manifest.step) == (
        "trainyard.checkpoint.v1",
        attempt.run_id,
        1,
        5,
    )
    assert {file.path: file.bytes for file in manifest.files} == {"model.pt": 7, "ranks/0.pt": 3}


def test_progress_is_what_the_contract_says_and_the_first_step_comes_at_once(
    tmp_path: Path,
) -> None:
    progress = Progress(tmp_path, world_size=2, resumed_from=7, every_seconds=3600)
    progress.step(8, 0.5)
    progress.step(9, float("nan"))
    read = ProgressFile.model_validate_json((tmp_path / "progress.json").read_bytes())
    assert (read.step, read.loss, read.resumed_from, read.world_size) == (8, 0.5, 7, 2)
    assert read.first_step_at is not None
    progress.step(10, float("nan"), last=True)
    read = ProgressFile.model_validate_json((tmp_path / "progress.json").read_bytes())
    assert (read.step, read.loss) == (10, None)


def test_progress_that_cannot_be_written_does_not_stop_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress(tmp_path / "attempt", world_size=1, resumed_from=None, every_seconds=0)
    (tmp_path / "attempt").rmdir()
    progress.step(1, 0.5)
    progress.step(2, 0.5)
    assert capsys.readouterr().err.count("cannot be reported") == 1
    (tmp_path / "attempt").mkdir()
    progress.step(3, 0.5)
    assert (tmp_path / "attempt/progress.json").exists()


def test_the_newest_whole_checkpoint_is_found_by_step_and_then_attempt(attempt: Attempt) -> None:
    save(attempt, 5)
    save(attempt, 20)
    (attempt.run_dir / "fence").write_text("2")
    newest = save(replace(attempt, number=2), 20)
    found, rejected = checkpoint.find_newest(attempt.checkpoint_dir)
    assert found is not None
    assert (found.path, found.step, found.attempt, rejected) == (newest, 20, 2, {})


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: (path / "model.pt").write_bytes(b"weighty"), "crc32"),
        (lambda path: (path / "model.pt").write_bytes(b"w"), "1 bytes, the manifest says 7"),
        (lambda path: (path / "model.pt").unlink(), "model.pt is missing"),
        (lambda path: (path / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda path: (path / "manifest.json").write_text("{"), "Expecting"),
        (lambda path: (path / "manifest.json").write_text("{}"), "cannot be read"),
        (lambda path: path.rename(path.with_name("step-000000000099-attempt-1")), "is of step 10"),
    ],
)
def test_a_torn_checkpoint_is_skipped_reported_and_kept(
    attempt: Attempt, harm: object, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, torn = save(attempt, 5), save(attempt, 10)
    harm(torn)  # type: ignore[operator]
    before = sorted(os.listdir(attempt.checkpoint_dir))
    found, rejected = checkpoint.find_newest(attempt.checkpoint_dir)
    assert found is not None
    assert found.path == whole
    assert len(rejected) == 1
    assert reason in next(iter(rejected.values()))
    assert "is not whole and is skipped" in capsys.readouterr().err
    assert sorted(os.listdir(attempt.checkpoint_dir)) == before


class Trouble:
    """Reading any of these checkpoints fails with this error for so many looks."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, code: int, looks: int, *paths: Path
    ) -> None:
        self._left, self._code, self._paths = looks, code, paths
        self._real = checkpoint._sum_of
        monkeypatch.setattr(checkpoint, "_sum_of", self)
        monkeypatch.setattr(checkpoint, "_FIRST_PAUSE", 0.001)

    def __call__(self, path: Path, quick: bool) -> str:
        if path.parent in self._paths and self._left > 0:
            self._left -= 1
            raise OSError(self._code, os.strerror(self._code), str(path))
        return self._real(path, quick)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ESTALE, errno.ENOMEM])
def test_a_start_waits_for_a_checkpoint_that_cannot_be_read_just_now(
    attempt: Attempt, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(attempt, 5)
    newest = save(attempt, 10)
    Trouble(monkeypatch, code, 3, newest)
    found, rejected = checkpoint.find_newest(attempt.checkpoint_dir)
    assert found is not None
    assert (found.path, rejected) == (newest, {})
    assert capsys.readouterr().err.count("cannot be read just now") == 3


def test_after_that_time_an_older_one_is_taken_and_the_newest_kept(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newest = save(attempt, 5), save(attempt, 10)
    monkeypatch.setattr(checkpoint, "READ_SECONDS", 0.05)
    Trouble(monkeypatch, errno.EIO, 10**9, newest)
    found, rejected = checkpoint.find_newest(attempt.checkpoint_dir)
    assert found is not None
    assert found.path == older
    assert "Input/output error" in rejected[newest]
    assert "is skipped: it cannot be read" in capsys.readouterr().err


def test_a_start_from_nothing_is_refused_while_there_are_checkpoints_that_cannot_be_read(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = save(attempt, 5), save(attempt, 10)
    monkeypatch.setattr(checkpoint, "READ_SECONDS", 0.05)
    Trouble(monkeypatch, errno.ESTALE, 10**9, *both)
    with pytest.raises(CheckpointFailed, match="none can be read, so nothing is trained anew"):
        checkpoint.find_newest(attempt.checkpoint_dir)


def test_a_manifest_may_not_name_files_outside_its_checkpoint(attempt: Attempt) -> None:
    path = save(attempt, 5)
    document = json.loads((path / "manifest.json").read_text())
    document["files"][0]["path"] = "../../fence"
    del document["crc32"]  # as in manifests of before
    (path / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="leaves the checkpoint"):
        checkpoint.verify(path)


def test_no_flipped_bit_of_a_manifest_changes_what_is_read_from_it(attempt: Attempt) -> None:
    target = checkpoints.save(attempt, 3, {"model.pt": lambda stream: stream.write(b"weights")})
    path, right = target / "manifest.json", checkpoint.verify(target, run_id=attempt.run_id)
    good = path.read_bytes()
    taken = 0
    for place in range(8 * len(good)):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        path.write_bytes(bad)
        try:
            assert checkpoint.verify(target, run_id=attempt.run_id, quick=True) == right
            taken += 1
        except ValueError:
            continue
    assert taken < 8 * 100  # white space, the name of the sum itself, and what no reader asks for


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": "trainyard.checkpoint.v1", "step": Infinity}',
        "[" * 100_000,
        "[]",
        "5",
        "null",
        "{}",
    ],
)
def test_a_manifest_of_another_shape_is_no_checkpoint(attempt: Attempt, text: str) -> None:
    target = checkpoints.save(attempt, 3, {"model.pt": lambda stream: stream.write(b"weights")})
    (target / "manifest.json").write_text(text)
    assert checkpoint.find_newest(attempt.checkpoint_dir)[0] is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TRAINYARD_ATTEMPT", "two"),
        ("TRAINYARD_CHECKPOINT_EVERY_STEPS", "0.5"),
        ("TRAINYARD_CHECKPOINT_EVERY_STEPS", "0"),
        ("TRAINYARD_CHECKPOINT_EVERY_SECONDS", "nan"),
        ("TRAINYARD_CHECKPOINT_KEEP", "-1"),
    ],
)
def test_a_number_in_the_environment_that_is_none_is_named(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: '{text}' is not a (whole )?number above 0"):
        Attempt.from_environment({name: text})


def test_a_fenced_attempt_cannot_commit(attempt: Attempt) -> None:
    (attempt.run_dir / "fence").write_text("2")
    with pytest.raises(Fenced, match="attempt 2"):
        save(attempt, 5)
    assert checkpoint.find_newest(attempt.checkpoint_dir) == (None, {})


def test_a_fence_that_cannot_be_read_stops_the_commit(attempt: Attempt) -> None:
    (attempt.run_dir / "fence").write_text("two")
    with pytest.raises(CheckpointFailed, match="not an attempt's number"):
        save(attempt, 5)


def test_a_directory_in_the_fences_place_is_named_and_stops_the_commit(attempt: Attempt) -> None:
    (attempt.run_dir / "fence").unlink(missing_ok=True)
    (attempt.run_dir / "fence").mkdir()
    with pytest.raises(CheckpointFailed, match=r"/fence is a directory.*write to another place"):
        save(attempt, 5)


@pytest.mark.parametrize(
    "name", [".tmp-step-000000000009-attempt-1", ".old-by-agent-step-000000000009-attempt-1"]
)
def test_leftovers_of_older_attempts_go_only_once_the_fence_stands(
    attempt: Attempt, name: str
) -> None:
    left = attempt.checkpoint_dir / name
    left.mkdir()
    second = replace(attempt, number=2)
    assert checkpoint.clean_leftovers(second) == []
    (attempt.run_dir / "fence").write_text("2")
    assert checkpoint.clean_leftovers(second) == [left.name]
    assert not left.exists()


def test_old_checkpoints_go_and_evidence_stays(attempt: Attempt) -> None:
    paths = [save(attempt, step) for step in (1, 2, 3, 4, 5)]
    (paths[4] / "model.pt").write_bytes(b"")
    checkpoint.prune(attempt.checkpoint_dir, 2, attempt, frozenset({paths[4]}))
    assert sorted(os.listdir(attempt.checkpoint_dir)) == [path.name for path in paths[2:]]


def test_what_has_not_all_its_files_neither_counts_nor_goes_when_old_ones_are_removed(
    attempt: Attempt,
) -> None:
    paths = [save(attempt, step) for step in (1, 2, 3, 4, 5, 6)]
    (paths[0] / "ranks/0.pt").unlink()
    (paths[4] / "ranks/0.pt").unlink()
    (paths[5] / "model.pt").write_bytes(b"")
    checkpoint.prune(attempt.checkpoint_dir, 2, attempt)
    left = [path.name for path in paths if path.exists()]
    assert left == [paths[place].name for place in (0, 2, 3, 4, 5)]
    found, rejected = checkpoint.find_newest(attempt.checkpoint_dir)
    assert found is not None
    assert (found.path, sorted(rejected)) == (paths[3], [paths[4], paths[5]])


def _final(attempt: Attempt, content: bytes) -> None:
    target = attempt.run_dir / "final"
    temporary = checkpoint.temporary_directory(target, attempt)
    temporary.mkdir()
    entry = checkpoint.write_file(temporary, "model.pt", lambda stream: stream.write(content))
    checkpoint.commit(attempt, target, 9, 1, [entry])


@pytest.mark.parametrize("killed", [True, False])
def test_a_final_model_stays_until_another_has_taken_its_place(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """The second of two renames fails, or the process dies before it."""
    _final(attempt, b"first")
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        if target.name == "final" and source.name.startswith(".tmp-"):
            raise Killed if killed else OSError(errno.EIO, "Input/output error")
        real(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(checkpoint.os, "rename", rename)
        with pytest.raises(Killed if killed else OSError):
            _final(attempt, b"second")
    final = attempt.run_dir / "final/model.pt"
    assert final.exists() is not killed
    second = replace(attempt, number=2)
    (attempt.run_dir / "fence").write_text("2")
    checkpoint.clean_leftovers(second)
    assert final.read_bytes() == b"first"
    _final(second, b"third")
    assert final.read_bytes() == b"third"
    assert not list(attempt.run_dir.glob(".old-*"))


def test_a_file_that_went_away_before_the_commit_is_no_part_of_a_checkpoint(
    attempt: Attempt,
) -> None:
    target = attempt.checkpoint_dir / checkpoint.checkpoint_name(3, 1)
    temporary = checkpoint.temporary_directory(target, attempt)
    for change in (Path.unlink, lambda path: path.write_bytes(b"")):
        entry = checkpoint.write_file(temporary, "model.pt", lambda stream: stream.write(b"1"))
        change(temporary / "model.pt")
        with pytest.raises((OSError, ValueError), match=r"model\.pt"):
            checkpoint.commit(attempt, target, 3, 1, [entry])
        assert not target.exists()


def test_a_full_disk_commits_nothing_and_the_error_names_the_file(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", no_space)
    with pytest.raises(OSError, match=r"No space left.*step-000000000007-attempt-1/model.pt"):
        save(attempt, 7)
    assert checkpoint.find_newest(attempt.checkpoint_dir) == (None, {})
    assert checkpoint.clean_leftovers(attempt) == [".tmp-step-000000000007-attempt-1"]
    assert os.listdir(attempt.checkpoint_dir) == []


class Killed(BaseException):
    """Stands for SIGKILL: after it, no `except Exception` and no clean-up of ours counts."""


@settings(deadline=None, max_examples=60)  # every example waits for the disk
@given(lines=st.integers(min_value=0, max_value=60))
def test_a_save_killed_at_any_system_call_leaves_the_older_checkpoint_newest(
    tmp_path_factory: pytest.TempPathFactory, lines: int
) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    attempt = Attempt("run-x", 1, run_dir, run_dir / "attempts" / "1", run_dir / "checkpoints")
    older = save(attempt, 5)
    calls = 0

    def killing(real: object) -> object:
        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls > lines:
                raise Killed
            return real(*arguments, **options)  # type: ignore[operator]

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "fsync", "rename", "replace", "unlink"):
            patch.setattr(checkpoint.os, name, killing(getattr(os, name)))
        try:
            newer = save(attempt, 10)
        except Killed:
            newer = attempt.checkpoint_dir / checkpoint.checkpoint_name(10, 1)
    found, rejected = checkpoint.find_newest(attempt.checkpoint_dir)
    assert found is not None
    assert found.path in (older, newer)
    assert rejected == {}
    assert save(replace(attempt, number=2), 11).exists()
