"""A program that uses trainyard_job has whole checkpoints, alone and as many ranks."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import job_examples, job_ranks
from tests.support.waiting import eventually

import trainyard_job
from trainyard_contracts.files import CheckpointManifest
from trainyard_contracts.files import Progress as ProgressFile
from trainyard_job import CheckpointFailed, ConfigError, Fenced, api


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run of this process alone, and the handlers of signals as they were."""
    for name in list(os.environ):
        if name.startswith(("TRAINYARD_", "OMPI_", "SLURM_")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TRAINYARD_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(api, "_job", None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    yield tmp_path / "run"
    for number, handler in handlers.items():
        signal.signal(number, handler)


def again(monkeypatch: pytest.MonkeyPatch, attempt: int) -> None:
    """The program starts as another attempt; what the process before had open is closed."""
    job = api._job
    if job is not None and job._lock is not None:
        os.close(job._lock)
    monkeypatch.setattr(api, "_job", None)
    monkeypatch.setenv("TRAINYARD_ATTEMPT", str(attempt))


def test_what_a_block_writes_is_the_newest_checkpoint(run_dir: Path) -> None:
    assert trainyard_job.latest() is None
    with trainyard_job.checkpoint(5) as directory:
        (directory / "model.pt").write_bytes(b"weights")
        (directory / "data").mkdir()
        (directory / "data" / "position").write_text("17")
    saved = trainyard_job.latest()
    assert saved is not None
    assert (saved.step, saved.attempt, saved.world_size) == (5, 1, 1)
    assert saved.path == run_dir / "checkpoints" / "step-000000000005-attempt-1"
    assert (saved.path / "data" / "position").read_text() == "17"
    manifest = CheckpointManifest.model_validate_json((saved.path / "manifest.json").read_bytes())
    assert [file.path for file in manifest.files] == ["data/position", "model.pt"]


def test_a_block_that_raises_leaves_nothing_and_the_older_checkpoint(run_dir: Path) -> None:
    with trainyard_job.checkpoint(5) as directory:
        (directory / "model.pt").write_bytes(b"weights")
    with pytest.raises(ZeroDivisionError), trainyard_job.checkpoint(6) as directory:
        (directory / "model.pt").write_bytes(b"%d" % (1 // 0))
    saved = trainyard_job.latest()
    assert saved is not None
    assert saved.step == 5
    assert os.listdir(run_dir / "checkpoints") == ["step-000000000005-attempt-1"]


def test_a_block_that_writes_nothing_is_refused_in_words(run_dir: Path) -> None:
    with (
        pytest.raises(CheckpointFailed, match="no rank wrote a file for step 5"),
        trainyard_job.checkpoint(5),
    ):
        pass
    assert os.listdir(run_dir / "checkpoints") == []


def test_a_step_that_is_saved_again_is_replaced(run_dir: Path) -> None:
    for text in ("first", "second"):
        with trainyard_job.checkpoint(5) as directory:
            (directory / "model.pt").write_text(text)
    saved = trainyard_job.latest()
    assert saved is not None
    assert (saved.path / "model.pt").read_text() == "second"


def test_only_the_newest_checkpoints_are_kept(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CHECKPOINT_KEEP", "2")
    for step in (1, 2, 3):
        with trainyard_job.checkpoint(step) as directory:
            (directory / "model.pt").write_text(str(step))
    names = sorted(os.listdir(run_dir / "checkpoints"))
    assert names == ["step-000000000002-attempt-1", "step-000000000003-attempt-1"]


def test_an_attempt_that_is_fenced_commits_nothing(run_dir: Path) -> None:
    assert trainyard_job.latest() is None
    (run_dir / "fence").write_text("2")
    with (
        pytest.raises(Fenced, match="attempt 2"),
        trainyard_job.checkpoint(5) as directory,
    ):
        (directory / "model.pt").write_text("late")
    assert os.listdir(run_dir / "checkpoints") == []


@pytest.mark.parametrize("name", ["manifest.json", "link"])
def test_a_file_that_cannot_be_in_a_checkpoint_is_named(run_dir: Path, name: str) -> None:
    make = Path.write_text if name == "manifest.json" else Path.symlink_to
    with pytest.raises(CheckpointFailed, match=name), trainyard_job.checkpoint(5) as directory:
        make(directory / name, "/etc/passwd")
    assert os.listdir(run_dir / "checkpoints") == []


def test_the_final_model_lies_beside_the_checkpoints(run_dir: Path) -> None:
    with trainyard_job.final(9) as directory:
        (directory / "model.pt").write_text("final")
    assert (run_dir / "final" / "model.pt").read_text() == "final"
    assert json.loads((run_dir / "final" / "manifest.json").read_text())["step"] == 9


def test_a_directory_of_a_framework_becomes_a_checkpoint_that_does_not_change_with_it(
    run_dir: Path, tmp_path: Path
) -> None:
    source = tmp_path / "out" / "checkpoint-7"
    source.mkdir(parents=True)
    (source / "model.pt").write_text("seven")
    trainyard_job.adopt(7, source)
    (source / "model.pt").unlink()
    saved = trainyard_job.latest()
    assert saved is not None
    assert (saved.path / "model.pt").read_text() == "seven"


def test_files_are_copied_where_there_are_no_links(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.pt").write_text("seven")
    monkeypatch.setattr(os, "link", refuse)
    trainyard_job.adopt(7, tmp_path / "out")
    saved = trainyard_job.latest()
    assert saved is not None
    assert sorted(os.listdir(saved.path)) == ["manifest.json", "model.pt"]


@pytest.mark.parametrize("step", [-1, 1.5, "7", None, 10**12])
def test_a_step_that_is_none_is_named(run_dir: Path, step: int) -> None:
    with pytest.raises(ValueError, match=r"step: .* is no step"):
        trainyard_job.due(step)


def test_progress_and_metrics_are_reported(run_dir: Path) -> None:
    trainyard_job.report(1, loss=0.5, rate=0.1)
    trainyard_job.report(2, loss=float("nan"), rate=0.2, accuracy=1)
    api.current().flush()
    attempt_dir = run_dir / "attempts" / "1"
    told = ProgressFile.model_validate_json((attempt_dir / "progress.json").read_bytes())
    assert (told.step, told.loss, told.world_size) == (2, None, 1)
    lines = [json.loads(line) for line in (attempt_dir / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["metrics"]) for line in lines] == [
        (1, {"rate": 0.1}),
        (2, {"rate": 0.2, "accuracy": 1.0}),
    ]
    with pytest.raises(ValueError, match="rate: 'fast' is not a number"):
        trainyard_job.report(3, rate="fast")


def test_a_resumed_attempt_says_from_where(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trainyard_job.checkpoint(5) as directory:
        (directory / "model.pt").write_bytes(b"weights")
    again(monkeypatch, 2)
    assert trainyard_job.latest() is not None
    trainyard_job.report(6)
    api.current().flush()
    told = json.loads((run_dir / "attempts" / "2" / "progress.json").read_text())
    assert told["resumedFrom"] == 5


def test_a_save_is_due_by_steps(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_CHECKPOINT_EVERY_STEPS", "3")
    due = []
    for step in range(1, 8):
        if trainyard_job.due(step):
            due.append(step)
            with trainyard_job.checkpoint(step) as directory:
                (directory / "x").write_text("x")
    assert due == [3, 6]


def test_a_signal_asks_for_a_save_or_for_the_end(run_dir: Path) -> None:
    assert not trainyard_job.due(1)
    os.kill(os.getpid(), signal.SIGUSR2)
    assert trainyard_job.due(2)
    assert not trainyard_job.due(3)
    assert not trainyard_job.should_stop()
    os.kill(os.getpid(), signal.SIGTERM)
    assert trainyard_job.should_stop()
    assert trainyard_job.due(4)


def test_results_have_a_directory_of_their_own(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trainyard_job.output_dir() == run_dir / "output"
    monkeypatch.setenv("TRAINYARD_OUTPUT_DIR", str(tmp_path / "elsewhere"))
    assert trainyard_job.output_dir() == tmp_path / "elsewhere"
    assert (tmp_path / "elsewhere").is_dir()


def test_a_place_that_changes_after_the_first_call_is_refused(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainyard_job.report(0)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="rank 0 of 1 when it first called trainyard_job"):
        trainyard_job.latest()


TRAIN = """
import os, sys, time, trainyard_job
rank = int(os.environ["RANK"])
saved = trainyard_job.latest()
step = saved.step if saved else 0
print("from", step, flush=True)
while step < int(os.environ["STEPS"]):
    step += 1
    time.sleep(float(os.environ.get("PAUSE", "0")))
    trainyard_job.report(step, loss=1 / step)
    if trainyard_job.due(step):
        with trainyard_job.checkpoint(step) as directory:
            (directory / f"rank-{rank}.txt").write_text(f"{rank} {step}")
            if rank == 0:
                (directory / "model.txt").write_text(str(step))
        print("saved", step, flush=True)
    if trainyard_job.should_stop():
        print("stopped", step, flush=True)
        sys.exit(trainyard_job.STOPPED)
"""


@pytest.mark.real
def test_a_checkpoint_has_the_files_of_all_ranks_and_all_resume_from_it(tmp_path: Path) -> None:
    options = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "4"}
    ranks = job_ranks.finished(tmp_path, TRAIN, 3, STEPS="10", **options)
    assert [rank.code for rank in ranks] == [0, 0, 0], ranks
    assert {rank.out for rank in ranks} == {"from 0\nsaved 4\nsaved 8\n"}
    newest = tmp_path / "checkpoints" / "step-000000000008-attempt-1"
    names = ["manifest.json", "model.txt", "rank-0.txt", "rank-1.txt", "rank-2.txt"]
    assert sorted(os.listdir(newest)) == names
    assert json.loads((newest / "manifest.json").read_text())["worldSize"] == 3
    (newest / "rank-2.txt").write_text("torn")
    ranks = job_ranks.finished(tmp_path, TRAIN, 3, STEPS="5", TRAINYARD_ATTEMPT="2", **options)
    assert {rank.out for rank in ranks} == {"from 4\n"}
    assert "is not whole and is skipped" in ranks[0].err


@pytest.mark.real
@pytest.mark.parametrize("signalled", [0, 1])
def test_all_ranks_save_and_stop_at_one_step_whoever_has_the_signal(
    tmp_path: Path, signalled: int
) -> None:
    ranks = job_ranks.start(tmp_path, TRAIN, 2, STEPS="100000", PAUSE="0.02")
    progress = tmp_path / "attempts" / "1" / "progress.json"
    eventually("the ranks train", progress.exists)
    ranks[signalled].send_signal(signal.SIGTERM)
    ended = job_ranks.ends(ranks)
    assert [rank.code for rank in ended] == [trainyard_job.STOPPED] * 2, job_ranks.told(ended)
    assert ended[0].out == ended[1].out
    step = int(ended[0].out.split()[-1])
    assert ended[0].out == f"from 0\nsaved {step}\nstopped {step}\n"
    assert (tmp_path / "checkpoints" / f"step-{step:012d}-attempt-1" / "rank-1.txt").exists()


@pytest.mark.real
def test_a_start_that_was_killed_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """Outside Trainyard every start is attempt 1."""
    options = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "3", "PAUSE": "0.02"}
    ranks = job_ranks.start(tmp_path, TRAIN, 2, STEPS="100000", **options)
    checkpoints = tmp_path / "checkpoints"
    eventually("a save", lambda: checkpoints.is_dir() and any(checkpoints.glob("step-*")))
    for rank in ranks:
        rank.kill()
    job_ranks.ends(ranks)
    newest = max(int(path.name[5:17]) for path in checkpoints.glob("step-*"))
    ended = job_ranks.finished(tmp_path, TRAIN, 2, STEPS=str(newest), **options)
    assert [(rank.code, rank.out) for rank in ended] == [(0, f"from {newest}\n")] * 2, (
        job_ranks.told(ended)
    )


STOP_ONLY = """
import sys, time, trainyard_job
step = 0
while not trainyard_job.should_stop():
    step += 1
    trainyard_job.report(step)
    time.sleep(0.01)
print(step)
"""


@pytest.mark.real
def test_ranks_that_never_save_stop_at_one_step(tmp_path: Path) -> None:
    ranks = job_ranks.start(tmp_path, STOP_ONLY, 2)
    eventually("a step", (tmp_path / "attempts" / "1" / "progress.json").exists)
    ranks[1].send_signal(signal.SIGTERM)
    ended = job_ranks.ends(ranks)
    assert [rank.code for rank in ended] == [0, 0], job_ranks.told(ended)
    assert ended[0].out == ended[1].out


@pytest.mark.real
def test_the_plain_program_resumes_to_the_same_weights(tmp_path: Path) -> None:
    job_examples.resumed_is_undisturbed(tmp_path, "plain.py")
