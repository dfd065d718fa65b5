"""A checkpoint of many ranks is whole or absent, whichever of them is killed at whatever line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support import job_ranks
from tests.support.dying import dies
from tests.support.repository import ROOT

import trainyard_job
from trainyard_job import CheckpointFailed
from trainyard_job.api import Job
from trainyard_job.checkpoints import checkpoint, saving
from trainyard_job.common.attempt import Attempt
from trainyard_job.ranks.place import Place

PACKAGE = str(Path(trainyard_job.__file__).parent)
BLOCKS = """
import os, sys, trainyard_job
rank, kind = int(os.environ["RANK"]), os.environ["KIND"]
shared = kind.startswith("shared")
try:
    with trainyard_job.checkpoint(1) as directory:
        (directory / f"rank-{rank}").write_text("good")
    with trainyard_job.checkpoint(2, shared=shared) as directory:
        (directory / f"rank-{rank}").write_text("good")
        if "raises" in kind and rank == int(kind[-1]):
            raise KeyError("mine")
        if kind == "same":
            (directory / "model").write_text("the same")
        if kind == "differ":
            (directory / "model").write_text(str(rank))
except Exception as error:
    print(type(error).__name__, error)
try:
    with trainyard_job.checkpoint(3, shared=shared) as directory:
        (directory / f"rank-{rank}").write_text("good")
except Exception as error:
    print("third", type(error).__name__, error)
"""


def steps(run_dir: Path) -> list[int]:
    return sorted(int(path.name[5:17]) for path in (run_dir / "checkpoints").glob("step-*"))


@pytest.mark.real
@pytest.mark.parametrize(
    "kind", ["private raises 0", "private raises 1", "shared raises 0", "shared raises 1"]
)
def test_an_exception_on_one_rank_fails_the_save_on_all_and_the_next_one_works(
    tmp_path: Path, kind: str
) -> None:
    ended = job_ranks.finished(tmp_path, BLOCKS, 2, KIND=kind)
    raising = int(kind[-1])
    assert ended[raising].out == "KeyError 'mine'\n", job_ranks.told(ended)
    assert ended[1 - raising].out == f"CheckpointFailed rank {raising}: KeyError: 'mine'\n", (
        job_ranks.told(ended)
    )
    assert steps(tmp_path) == [1, 3]
    left = [name for name in os.listdir(tmp_path / "checkpoints") if name.startswith(".")]
    assert left == [] or kind == "shared raises 0"


@pytest.mark.real
def test_two_ranks_that_write_one_name_must_write_the_same(tmp_path: Path) -> None:
    ended = job_ranks.finished(tmp_path, BLOCKS, 2, KIND="differ")
    assert all("ranks 0 and 1 both wrote 'model', and not the same" in rank.out for rank in ended)
    assert steps(tmp_path) == [1, 3]
    ended = job_ranks.finished(tmp_path, BLOCKS, 2, KIND="same")
    assert [rank.out for rank in ended] == ["", ""]
    saved = tmp_path / "checkpoints" / "step-000000000002-attempt-1"
    assert sorted(os.listdir(saved)) == ["manifest.json", "model", "rank-0", "rank-1"]


@pytest.mark.real
def test_of_a_shared_directory_each_rank_reads_a_share_and_the_manifest_has_all(
    tmp_path: Path,
) -> None:
    ended = job_ranks.finished(tmp_path, BLOCKS, 3, KIND="shared")
    assert [rank.out for rank in ended] == [""] * 3, job_ranks.told(ended)
    saved = checkpoint.verify(tmp_path / "checkpoints" / "step-000000000003-attempt-1")
    assert saved.world_size == 3
    manifest = json.loads((saved.path / "manifest.json").read_text())
    assert [file["path"] for file in manifest["files"]] == ["rank-0", "rank-1", "rank-2"]


ADOPTS = """
import os, trainyard_job
from pathlib import Path
source = Path(os.environ["TRAINYARD_RUN_DIR"]) / ("node-" + os.environ["RANK"])
source.mkdir()
(source / "model").write_text("the same on each")
(source / ("rank-" + os.environ["RANK"])).write_text("own")
trainyard_job.adopt(1, source)
"""


@pytest.mark.real
def test_of_directories_that_each_node_has_for_itself_all_files_are_adopted(tmp_path: Path) -> None:
    ended = job_ranks.finished(tmp_path, ADOPTS, 2)
    assert [rank.code for rank in ended] == [0, 0], job_ranks.told(ended)
    saved = checkpoint.verify(tmp_path / "checkpoints" / "step-000000000001-attempt-1")
    assert sorted(os.listdir(saved.path)) == ["manifest.json", "model", "rank-0", "rank-1"]


def test_shares_are_about_equal() -> None:
    parts = saving.shared_out({"a": 10, "b": 7, "c": 4, "d": 3}, 2)
    assert parts == [["a", "d"], ["b", "c"]]
    assert saving.shared_out({}, 2) == [[], []]


def attempt_of(run_dir: Path, number: int) -> Attempt:
    return Attempt.from_environment(
        {"TRAINYARD_RUN_DIR": str(run_dir), "TRAINYARD_ATTEMPT": str(number)}
    )


def save_and_die(run_dir: Path, step: int, line: int) -> bool:
    """Whether a save, in a process that is killed at this line, came to its end."""

    def work() -> None:
        job = Job(attempt_of(run_dir, 1), Place())
        job.latest()
        with job.checkpoint(step) as directory:
            (directory / "model").write_text(f"{step}")

    return not dies(PACKAGE, line, work)


@pytest.mark.real
def test_a_save_that_is_killed_at_any_line_leaves_the_older_checkpoint_or_the_new_one(
    tmp_path: Path,
) -> None:
    assert save_and_die(tmp_path, 5, 0)
    line, found_steps, done = 0, set(), False
    while not done:
        line += 3
        done = save_and_die(tmp_path, 6, line)
        checkpoint.clean_leftovers(attempt_of(tmp_path, 1))
        saved, rejected = checkpoint.find_newest(tmp_path / "checkpoints")
        assert saved is not None
        assert rejected == {}
        assert (saved.path / "model").read_text() == str(saved.step)
        found_steps.add(saved.step)
        assert not [
            name for name in os.listdir(tmp_path / "checkpoints") if name.startswith(".tmp-")
        ]
    assert line > 100
    assert found_steps == {5, 6}


KILLED = """
import os, sys
from pathlib import Path
import trainyard_job
from tests.support.dying import die_at
from tests.unit.trainyard_job.checkpoints.test_saving import PACKAGE
rank = int(os.environ["RANK"])
with trainyard_job.checkpoint(1) as directory:
    (directory / f"rank-{rank}").write_text("good")
if rank == int(os.environ["DYING"]):
    die_at(PACKAGE, int(os.environ["LINE"]))
try:
    with trainyard_job.checkpoint(2) as directory:
        (directory / f"rank-{rank}").write_text("good")
except trainyard_job.CheckpointFailed as error:
    print(error)
"""


@pytest.mark.real
@pytest.mark.parametrize("line", [5, 120, 240])
@pytest.mark.parametrize("dying", [0, 1])
def test_a_rank_that_is_killed_amid_a_save_never_leaves_one_without_its_files(
    tmp_path: Path, dying: int, line: int
) -> None:
    variables = {"DYING": str(dying), "LINE": str(line), "PYTHONPATH": str(ROOT)}
    ended = job_ranks.finished(tmp_path, KILLED, 2, **variables)
    assert ended[1 - dying].code == 0, job_ranks.told(ended)
    saved, rejected = checkpoint.find_newest(tmp_path / "checkpoints")
    assert saved is not None
    assert rejected == {}
    assert sorted(os.listdir(saved.path)) == ["manifest.json", "rank-0", "rank-1"]
    if saved.step == 1:
        assert f"rank {dying} ended before it came to" in ended[1 - dying].out


def test_a_checkpoint_that_a_killed_commit_set_aside_is_put_back(tmp_path: Path) -> None:
    job = Job(attempt_of(tmp_path, 1), Place())
    with job.checkpoint(4) as directory:
        (directory / "model").write_text("four")
    there = tmp_path / "checkpoints" / "step-000000000004-attempt-1"
    there.rename(there.with_name(f".old-{there.name}-attempt-1"))
    checkpoint.clean_leftovers(attempt_of(tmp_path, 2))
    assert (there / "model").read_text() == "four"


def test_a_name_that_is_not_utf_8_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    with pytest.raises(ValueError, match="is not UTF-8"):
        saving.files_below(tmp_path)


def test_a_file_that_cannot_be_read_fails_the_save_on_all_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    job = Job(attempt_of(tmp_path, 1), Place())
    monkeypatch.setattr(saving.os, "fsync", full)
    with (
        pytest.raises(CheckpointFailed, match=r"rank 0: .*No space left"),
        job.checkpoint(4) as directory,
    ):
        (directory / "model").write_text("four")
    assert os.listdir(tmp_path / "checkpoints") == []
