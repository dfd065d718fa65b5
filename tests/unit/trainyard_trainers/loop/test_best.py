"""The checkpoint with the smallest validation loss is kept beside the newest ones."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist

from trainyard_job.checkpoints.checkpoint import checkpoint_name
from trainyard_job.common.attempt import Attempt
from trainyard_trainers.checkpoints.checkpointer import Checkpointer
from trainyard_trainers.loop.best import NAME, Best


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def attempt(run_dir: Path, number: int = 1) -> Attempt:
    return Attempt(
        "run",
        number,
        run_dir,
        run_dir / "attempts" / str(number),
        run_dir / "checkpoints",
        every_steps=1,
        keep=2,
    )


def trained(run_dir: Path, losses: list[float], number: int = 1) -> tuple[Best, Checkpointer]:
    """A save after every step, each with a validation."""
    (run_dir / "fence").write_text(str(number))
    this = attempt(run_dir, number)
    checkpoints = Checkpointer(this)
    best, found = Best(this, checkpoints), checkpoints.newest()
    if found is not None:
        best.restore(found.path)
    for step, loss in enumerate(losses, found.step + 1 if found else 1):
        best.validated(step, loss)
        best.before_save(0)
        checkpoints.save(step, {"model": b"1", **best.files()})
    return best, checkpoints


def there(run_dir: Path) -> list[int]:
    return sorted(int(path.name[5:17]) for path in (run_dir / "checkpoints").glob("step-*"))


def test_the_best_checkpoint_outlives_newer_ones_and_says_so(tmp_path: Path) -> None:
    best, _ = trained(tmp_path, [3.0, 1.0, 2.0, 2.5, 2.2])
    assert best.name == checkpoint_name(2, 1)
    assert there(tmp_path) == [2, 4, 5]
    said = json.loads((tmp_path / "checkpoints" / checkpoint_name(5, 1) / NAME).read_text())
    assert said["best"] == {"step": 2, "loss": 1.0, "checkpoint": checkpoint_name(2, 1)}
    assert said["last"] == {"step": 5, "loss": 2.2}
    assert json.loads((tmp_path / "best.json").read_text())["keep"] == [checkpoint_name(2, 1)]


def test_a_better_one_takes_its_place_once_it_is_there(tmp_path: Path) -> None:
    best, _ = trained(tmp_path, [1.0, 2.0, 2.0, 0.5, 3.0, 3.0, 3.0])
    assert best.name == checkpoint_name(4, 1)
    assert there(tmp_path) == [4, 6, 7]


def test_the_one_before_stays_while_the_new_best_is_not_committed(tmp_path: Path) -> None:
    best, checkpoints = trained(tmp_path, [1.0, 2.0, 2.0])
    assert best.validated(4, 0.5)
    best.before_save(0)  # its save fails: the disk is full
    for step in (5, 6, 7):
        best.before_save(0)
        checkpoints.save(step, {"model": b"1"})
    assert there(tmp_path) == [1, 6, 7]
    assert json.loads((tmp_path / "best.json").read_text())["keep"] == [
        checkpoint_name(4, 1),
        checkpoint_name(1, 1),
    ]


def test_a_resumed_run_knows_the_best_of_the_attempts_before(tmp_path: Path) -> None:
    trained(tmp_path, [3.0, 1.0, 2.0])
    best, _ = trained(tmp_path, [2.0, 2.0, 2.0], number=2)
    assert best.name == checkpoint_name(2, 1)
    assert there(tmp_path) == [2, 5, 6]


def test_a_loss_that_is_not_finite_is_never_the_best(tmp_path: Path) -> None:
    best, _ = trained(tmp_path, [math.nan, 2.0, math.inf, math.nan])
    assert best.name == checkpoint_name(2, 1)
    assert json.loads(best.files()[NAME])["last"] == {"step": 4, "loss": None}  # type: ignore[arg-type]


def test_a_fenced_attempt_does_not_say_what_is_to_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best, _ = trained(tmp_path, [1.0])
    before = (tmp_path / "best.json").read_text()
    (tmp_path / "fence").write_text("2")
    assert best.validated(2, 0.5)
    best.before_save(0)
    assert (tmp_path / "best.json").read_text() == before
    assert "best.json is not written: attempt 1 is fenced" in capsys.readouterr().err
