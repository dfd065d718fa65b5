"""The shared loop on real ranks: killed, torn, stopped or fenced, it ends as if undisturbed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest
from tests.support import small_task
from tests.support.forked_jobs import ForkedJob, running
from tests.support.mlflow_server import MlflowServer, serving
from tests.support.waiting import eventually

from trainyard_job.checkpoints import checkpoint
from trainyard_trainers.ddp import train as ddp
from trainyard_trainers.loop import LoopConfig

STEPS = 40
EVERY_STEP = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "1"}


def job(
    run_dir: Path,
    attempt: int,
    *,
    steps: int = STEPS,
    pause: float = 0.0,
    every: int = 5,
    world_size: int = 2,
    **more: object,
) -> ForkedJob:
    config = LoopConfig(
        steps=steps, step_seconds=pause, asynchronous=bool(more.pop("asynchronous", True))
    )
    arguments = (
        config,
        more.pop("bad_step", None),
        more.pop("hang_step", None),
        more.pop("weights", 3),
    )
    environment = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": str(every), **more}
    return ForkedJob(run_dir, attempt, small_task.main, arguments, world_size, environment)  # type: ignore[arg-type]


def final_bytes(run_dir: Path) -> bytes:
    return (run_dir / "final" / "model.pt").read_bytes()


def newest(run_dir: Path) -> Path:
    return max((run_dir / "checkpoints").glob("step-*"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ForkedJob:
    """An uninterrupted run."""
    done = job(tmp_path_factory.mktemp("whole") / "run", 1)
    with running(done):
        assert done.wait() == [0, 0], done.log()
    return done


def test_a_hundred_kills_in_the_middle_of_saves_lose_no_whole_checkpoint_and_end_equal(
    tmp_path: Path, whole: ForkedJob
) -> None:
    chance, run_dir, torn, last, attempt = random.Random(20261121), tmp_path / "run", 0, 0, 0
    # Until so often it died between the first file and the rename, however fast the disk is.
    while attempt < 100 or torn < 20:
        attempt += 1
        assert attempt <= 400, f"{torn} of 400 kills tore a save"
        # Two steps an attempt at most, so that a hundred attempts fit into the run.
        # Each step is saved, so every moment is one of a save.
        with running(job(run_dir, attempt, every=1, steps=STEPS, pause=0.02)) as one:
            if attempt > 1 and last >= STEPS - 1:
                shutil.rmtree(run_dir / "checkpoints")  # from the start again
                shutil.rmtree(run_dir / "final", ignore_errors=True)
            one.until(
                "a save begins",
                lambda attempt=attempt: list(
                    (run_dir / "checkpoints").glob(f".tmp-*-attempt-{attempt}")
                ),
            )
            # No condition to wait for: the point is to die anywhere.
            time.sleep(chance.choice((0.0, chance.random() * 0.03)))
            one.signal(signal.SIGKILL) if chance.random() < 0.7 else os.kill(
                chance.choice(one.processes).pid, signal.SIGKILL
            )
        torn += bool(list((run_dir / "checkpoints").glob(f".tmp-*-attempt-{attempt}")))
        found, rejected = checkpoint.find_newest(run_dir / "checkpoints", run_id="run-x")
        assert rejected == {}, one.log()
        last = found.step if found else 0
    with running(job(run_dir, attempt + 1)) as one:
        assert one.wait() == [0, 0], one.log()
    assert final_bytes(run_dir) == final_bytes(whole.run_dir)


def test_a_run_that_is_stopped_again_and_again_has_the_losses_of_one_that_was_not(
    tmp_path: Path, whole: ForkedJob
) -> None:
    run_dir, losses, attempt, stops = tmp_path / "run", {}, 0, 0
    while not (run_dir / "final").exists():
        attempt += 1
        with running(job(run_dir, attempt, every=1000, pause=0.01)) as one:
            if attempt <= 4:
                one.until_step(8 * attempt)
                one.signal(signal.SIGTERM)
            codes = one.wait()
        assert codes in ([143, 143], [0, 0]), one.log()
        stops += codes == [143, 143]
        losses.update(one.losses())
    assert stops == 4
    assert losses == whole.losses()
    assert final_bytes(run_dir) == final_bytes(whole.run_dir)


def test_a_tracker_has_one_run_for_all_attempts_and_one_that_is_away_costs_no_training(
    tmp_path: Path, whole: ForkedJob
) -> None:
    tracker, run_dir = MlflowServer(), tmp_path / "run"

    def points() -> list[dict[str, float]]:
        return [point for run in tracker.runs.values() for point in run["metrics"]]

    def another(known: set[float]) -> bool:
        return any(point["step"] not in known for point in points())

    with serving(tracker) as uri:
        for attempt in (1, 2):
            known = {point["step"] for point in points()}
            with running(job(run_dir, attempt, pause=1.0, MLFLOW_TRACKING_URI=uri)) as one:
                eventually("the tracker has another point", partial(another, known))
                one.signal(signal.SIGTERM)
                assert one.wait() == [143, 143], one.log()
    assert len(tracker.runs) == 1
    losses = whole.losses()
    told = {int(point["step"]): point["value"] for point in points() if "loss" in point["key"]}
    assert told == {step: pytest.approx(losses[step]) for step in told}
    with running(job(run_dir, 3, MLFLOW_TRACKING_URI=uri)) as one:
        assert one.wait() == [0, 0], one.log()
        assert "the tracker mlflow" in one.log()
    assert final_bytes(run_dir) == final_bytes(whole.run_dir)


def test_a_run_resumed_on_other_ranks_repeats_and_skips_no_sample(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    for attempt, world_size in enumerate((2, 3, 1), start=1):
        with running(
            job(run_dir, attempt, steps=(7, 11, 30)[attempt - 1], world_size=world_size, every=1000)
        ) as one:
            assert one.wait() == [0] * world_size, one.log()
        shutil.rmtree(run_dir / "final")
    taken = [
        sample
        for line in (run_dir / "samples.jsonl").read_text().splitlines()
        for sample in json.loads(line)[2]
    ]
    passes, rest = divmod(len(taken), small_task.SAMPLES)
    assert len(taken) == small_task.BATCH * (7 * 2 + 4 * 3 + 19)
    assert passes == 3
    assert rest == 0
    assert set(Counter(taken).values()) == {passes}


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: flip(path / "model.pt"), "model.pt does not have the manifest's crc32"),
        (lambda path: (path / "rank-00001.pt").unlink(), "rank-00001.pt is missing"),
        (lambda path: (path / "manifest.json").write_bytes(b""), "is not whole"),
        (lambda path: rename_run(path), "is of run run-other, not of run-x"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name_and_the_run_ends_equal(
    tmp_path: Path, whole: ForkedJob, harm: Callable[[Path], object], reason: str
) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(whole.run_dir, run_dir)
    shutil.rmtree(run_dir / "final")
    harm(newest(run_dir))
    before = checkpoint.verify(
        sorted((run_dir / "checkpoints").glob("step-*"))[-2]
    )  # retention may take it away later
    with running(job(run_dir, 2)) as one:
        assert one.wait() == [0, 0], one.log()
    assert reason in one.log()
    assert "is not whole and is skipped" in one.log()
    assert min(one.losses()) == before.step + 1
    assert final_bytes(run_dir) == final_bytes(whole.run_dir)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def rename_run(path: Path) -> None:
    document = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**document, "runId": "run-other"}))


def test_of_two_attempts_at_once_the_older_commits_nothing_more(
    tmp_path: Path, whole: ForkedJob
) -> None:
    run_dir = tmp_path / "run"
    with running(job(run_dir, 1, every=1, pause=0.02)) as older:
        older.until_step(5)
        with running(job(run_dir, 2, every=1)) as newer:
            assert newer.wait() == [0, 0], newer.log()
            assert older.wait() == [79, 79], older.log()
    assert "attempt 1 is fenced: attempt 2" in older.log()
    assert final_bytes(run_dir) == final_bytes(whole.run_dir)
    assert all(checkpoint.verify(path).attempt for path in (run_dir / "checkpoints").glob("step-*"))


def test_a_gradient_that_is_not_finite_stops_all_ranks_and_what_it_ruined_is_never_saved(
    tmp_path: Path,
) -> None:
    with running(job(tmp_path / "run", 1, bad_step=-13, every=1)) as one:
        assert one.wait() == [1, 1], one.log()
    assert "the gradient of step 13 is not finite" in one.log()
    assert not list((tmp_path / "run" / "checkpoints").glob("step-000000000013-*"))


def test_a_second_job_of_the_same_attempt_is_refused_and_the_first_one_ends_as_if_alone(
    tmp_path: Path, whole: ForkedJob
) -> None:
    run_dir = tmp_path / "run"
    with running(job(run_dir, 1, pause=0.05)) as first:
        first.until_step(6)
        with running(job(run_dir, 1)) as second:
            assert second.wait() == [74, 74], second.log()
        assert (
            "attempt 1 of run run-x is running already; end it, or give another TRAINYARD_RUN_DIR"
            in second.log()
        )
        assert first.wait() == [0, 0], first.log()
    assert final_bytes(run_dir) == final_bytes(whole.run_dir)


def test_the_same_attempt_begun_again_takes_nothing_from_the_save_it_was_killed_in(
    tmp_path: Path, whole: ForkedJob
) -> None:
    run_dir = tmp_path / "run"
    with running(job(run_dir, 1, pause=0.05)) as first:
        first.until("a save begins", lambda: list((run_dir / "checkpoints").glob(".tmp-*")))
        first.signal(signal.SIGKILL)
        first.wait()
    left = run_dir / "checkpoints" / ".tmp-step-000000000010-attempt-1"
    (left / ".parts").mkdir(parents=True, exist_ok=True)
    for serial in range(1, 9):
        (left / ".parts" / f"{serial}-1.json").write_text('{"files": []}')
    (left / "of-a-dead-job.pt").write_bytes(b"x")
    with running(job(run_dir, 1, pause=0.05)) as second:
        assert second.wait() == [0, 0], second.log()
    assert final_bytes(run_dir) == final_bytes(whole.run_dir)
    assert not list((run_dir / "checkpoints").glob("*/of-a-dead-job.pt"))
    assert not list((run_dir / "checkpoints").glob(".tmp-*"))


def test_a_checkpoint_of_another_trainer_is_refused_in_words(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with running(job(run_dir, 1, steps=5)) as first:
        assert first.wait() == [0, 0]
    with running(ForkedJob(run_dir, 2, ddp.main, (["--steps", "10"],))) as second:
        assert second.wait() == [74, 74], second.log()
    assert "its content cannot be resumed from" in second.log()
    assert "give another run directory (TRAINYARD_RUN_DIR)" in second.log()


def test_a_trainer_without_a_launcher_is_a_job_of_one_rank(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainyard_trainers.ddp", "--steps", "20"]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")
    }
    done = subprocess.run(
        command,
        env={**environment, "TRAINYARD_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert checkpoint.verify(tmp_path / "final").world_size == 1


def test_a_loss_that_is_not_finite_stops_all_ranks_and_is_never_saved(tmp_path: Path) -> None:
    with running(job(tmp_path / "run", 1, bad_step=13)) as one:
        codes = one.wait()
    assert codes == [1, 1], one.log()
    assert "the loss of step 13 is not finite" in one.log()
    assert "rank 1: nan" in one.log()
    saved, _ = checkpoint.find_newest(tmp_path / "run" / "checkpoints")
    assert saved is not None
    assert 5 <= saved.step <= 12


def test_sigusr1_shows_where_a_rank_hangs_and_training_does_not_mind_it(tmp_path: Path) -> None:
    with running(job(tmp_path / "run", 1, hang_step=10)) as one:
        one.until_step(1)
        log = one.directory / "rank-1.log"
        seen = one.until(
            "rank 1 hangs",
            lambda: (
                one.signal(signal.SIGUSR1)
                or ("never_ending" in log.read_text() and log.read_text())
            ),
        )
        assert "small_task.py" in seen
        assert all(process.is_alive() for process in one.processes)
        assert one.step() < 10


def test_without_its_writing_process_a_rank_writes_itself_and_the_run_ends_equal(
    tmp_path: Path, whole: ForkedJob
) -> None:
    run_dir = tmp_path / "run"
    with running(job(run_dir, 1, pause=0.02)) as one:
        one.until_step(6)
        for rank in (1, 0):
            writers = [
                child
                for child in psutil.Process(one.processes[rank].pid).children()
                if child.name() == "checkpoint-save"
            ]
            assert len(writers) == 1
            writers[0].kill()
        assert one.wait() == [0, 0], one.log()
    assert one.log().count("the writing process is gone") == 2
    assert newest(run_dir).name == f"step-{STEPS:012d}-attempt-1"
    assert final_bytes(run_dir) == final_bytes(whole.run_dir)


def test_a_checkpoint_says_the_same_whether_it_was_written_beside_training_or_not(
    tmp_path: Path, whole: ForkedJob
) -> None:
    run_dir = tmp_path / "run"
    with running(job(run_dir, 1, asynchronous=False)) as one:
        assert one.wait() == [0, 0], one.log()
    for name in ("model.pt", "rank-00000.pt", "rank-00001.pt"):
        assert (newest(run_dir) / name).read_bytes() == (newest(whole.run_dir) / name).read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")
def test_a_disk_that_fills_up_in_a_save_costs_that_save_only(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    (run_dir / "checkpoints").mkdir(parents=True)
    with (
        small_disk(run_dir / "checkpoints", "4M"),
        running(job(run_dir, 1, pause=0.02, weights=20_000, every=3)) as one,
    ):
        one.until_step(4)
        ballast = run_dir / "checkpoints" / "ballast"
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as full:
            while True:
                full.write(b"\0" * 4096)
        one.until("a save fails", lambda: "was not committed" in one.log())
        ballast.unlink()
        assert one.wait() == [0, 0], one.log()
        assert "No space left on device" in one.log()
        assert checkpoint.verify(newest(run_dir)).step == STEPS
        assert not list((run_dir / "checkpoints").glob(".tmp-*"))


class small_disk:
    """A file system of so many bytes at a path."""

    def __init__(self, path: Path, size: str) -> None:
        self.path, self.size = path, size

    def __enter__(self) -> None:
        assert os.system(f"mount -t tmpfs -o size={self.size} tmpfs {self.path}") == 0

    def __exit__(self, *_: object) -> None:
        assert os.system(f"umount -l {self.path}") == 0
