"""A language model that was stopped or killed, and resumed on any ranks, ends as without that."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
import torch
from tests.support.forked_jobs import ForkedJob, running
from tests.support.llm_modes import MODEL, hold, noting_main, write_documents

from trainyard_trainers.llm import train
from trainyard_trainers.llm.packing import PackedData
from trainyard_trainers.loop.data import Stream
from trainyard_trainers.parallel import nxd_layout

STEPS, BATCH, SEQUENCE = 8, 8, 16


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("llm") / "tokens")


def words(tokens: Path, *more: str) -> list[str]:
    names = (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "initializer_range",
    )
    model = [
        word
        for name in names
        for word in (f"--model.{name.replace('_', '-')}", str(getattr(MODEL, name)))
    ]
    sizes = [
        "--steps",
        str(STEPS),
        "--batch",
        str(BATCH),
        "--sequence",
        str(SEQUENCE),
        "--micro-batch",
        "2",
        "--warmup",
        "3",
    ]
    return ["--data", str(tokens), *model, *sizes, "--optimizer.learning-rate", "0.01", *more]


def job(run_dir: Path, attempt: int, argv: list[str], world_size: int, every: int = 2) -> ForkedJob:
    return ForkedJob(
        run_dir,
        attempt,
        noting_main,
        (argv,),
        world_size,
        {"TRAINYARD_CHECKPOINT_EVERY_STEPS": str(every)},
    )


def finished(run_dir: Path, attempt: int, argv: list[str], world_size: int) -> ForkedJob:
    with running(job(run_dir, attempt, argv, world_size)) as done:
        assert done.wait() == [0] * world_size, done.log()
    return done


def interrupted(
    run_dir: Path, argv: list[str], world_size: int, number: signal.Signals
) -> ForkedJob:
    hold(run_dir).parent.mkdir()
    hold(run_dir).touch()
    with running(job(run_dir, 1, argv, world_size, every=2)) as first:
        first.until("a checkpoint", lambda: sorted(run_dir.glob("checkpoints/step-*")))
        first.signal(number)
        hold(run_dir).unlink()
        assert set(first.wait()) == {143 if number == signal.SIGTERM else -number}, first.log()
    return first


def last(run_dir: Path) -> nxd_layout.Checkpoint:
    return nxd_layout.Checkpoint(max(run_dir.glob("checkpoints/step-*")) / nxd_layout.tag_of(STEPS))


def assert_equal_to_the_bit(one: nxd_layout.Checkpoint, other: nxd_layout.Checkpoint) -> None:
    assert one.names() == other.names()
    for name in one.names():
        assert torch.equal(one.full(name), other.full(name)), name
        for key in ("exp_avg", "exp_avg_sq", "step"):
            assert torch.equal(one.full_optimizer(name, key), other.full_optimizer(name, key)), (
                name,
                key,
            )


def samples(run_dir: Path, attempt: int) -> dict[int, list[int]]:
    """Of every step: the samples of all data-parallel ranks."""
    found: dict[int, list[int]] = {}
    for path in sorted(run_dir.glob(f"samples-{attempt}-*.jsonl")):
        for line in path.read_text().splitlines():
            step, numbers = json.loads(line)
            found[step] = sorted([*found.get(step, []), *numbers])
    return found


MODES = {
    "ddp": (["--parallel.data", "ddp"], 2, signal.SIGKILL),
    "fsdp": (["--parallel.data", "fsdp"], 2, signal.SIGTERM),
    "zero1 x tp": (["--parallel.data", "zero1", "--parallel.tp", "2"], 4, signal.SIGKILL),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> dict[str, ForkedJob]:
    """An uninterrupted run of every mode."""
    directory = tmp_path_factory.mktemp("whole")
    return {
        name: finished(directory / name, 1, words(tokens, *more), ranks)
        for name, (more, ranks, _) in MODES.items()
    }


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> dict[str, Path]:
    """A run of every mode, stopped or killed after its first checkpoint; copy it to go on."""
    directory = tmp_path_factory.mktemp("cut")
    for name, (more, ranks, number) in MODES.items():
        interrupted(directory / name, words(tokens, *more), ranks, number)
    return {name: directory / name for name in MODES}


@pytest.mark.parametrize("mode", MODES)
def test_a_resumed_run_ends_with_the_bits_of_an_uninterrupted_one(
    tmp_path: Path, tokens: Path, whole: dict[str, ForkedJob], cut: dict[str, Path], mode: str
) -> None:
    more, ranks, _ = MODES[mode]
    shutil.copytree(cut[mode], tmp_path / "run")
    second = finished(tmp_path / "run", 2, words(tokens, *more), ranks)
    assert "training resumes after step" in second.log()
    assert_equal_to_the_bit(last(tmp_path / "run"), last(whole[mode].run_dir))
    expected, losses = whole[mode].losses(), second.losses()
    assert 0 < len(losses) < STEPS
    assert losses == {step: expected[step] for step in losses}


@pytest.mark.parametrize(
    "other", ["one rank", "fsdp on 2", "tp on 2, zero1", "one rank after fsdp", "fsdp on 4"]
)
def test_a_run_resumed_on_other_ranks_repeats_and_skips_no_sample_and_goes_on_with_the_same_losses(
    tmp_path: Path, tokens: Path, whole: dict[str, ForkedJob], cut: dict[str, Path], other: str
) -> None:
    more, ranks = {
        "one rank": ([], 1),
        "fsdp on 2": (["--parallel.data", "fsdp"], 2),
        "tp on 2, zero1": (["--parallel.tp", "2", "--parallel.data", "zero1"], 2),
        "one rank after fsdp": ([], 1),
        "fsdp on 4": (["--parallel.data", "fsdp", "--micro-batch", "1"], 4),
    }[other]
    mode = {"tp on 2, zero1": "ddp", "one rank after fsdp": "fsdp", "fsdp on 4": "fsdp"}.get(
        other, "zero1 x tp"
    )
    shutil.copytree(cut[mode], tmp_path / "run")
    second = finished(tmp_path / "run", 2, words(tokens, *more), ranks)
    before, after = samples(tmp_path / "run", 1), samples(tmp_path / "run", 2)
    resumed = min(after)
    assert 1 < resumed <= STEPS
    stream = Stream(len(PackedData(tokens, SEQUENCE)), train.LlmConfig(data="x").seed)
    for step in range(1, STEPS + 1):
        assert (before if step < resumed else after)[step] == sorted(stream.take(BATCH).tolist()), (
            step
        )
    expected = whole[mode].losses()
    assert second.losses() == pytest.approx({step: expected[step] for step in after}, rel=1e-4)


def test_a_checkpoint_of_another_model_or_of_other_data_is_refused_by_name(
    tmp_path: Path, tokens: Path, whole: dict[str, ForkedJob]
) -> None:
    run_dir = whole["ddp"].run_dir
    with running(job(run_dir, 2, [*words(tokens), "--model.rope-theta", "500000"], 1)) as other:
        assert other.wait() == [2]
    assert (
        "model.rope_theta: the checkpoint was trained with 10000.0, this run has 500000.0"
        in other.log()
    )
    with running(job(run_dir, 3, words(write_documents(tmp_path / "other", seed=9)), 1)) as other:
        assert other.wait() == [2]
    assert "data.shards: the checkpoint was trained with" in other.log()


def test_what_is_saved_within_the_step_is_what_the_writer_saves_beside_it(
    tmp_path: Path, tokens: Path, whole: dict[str, ForkedJob]
) -> None:
    more, ranks, _ = MODES["ddp"]
    within = finished(tmp_path / "run", 1, words(tokens, *more, "--asynchronous", "false"), ranks)
    beside = whole["ddp"].run_dir
    for directory in ("final", f"checkpoints/step-{STEPS:012d}-attempt-1"):
        files = {
            path.relative_to(beside): path
            for path in (beside / directory).rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }
        assert len(files) >= 2
        for name, path in files.items():
            assert (within.run_dir / name).read_bytes() == path.read_bytes(), name
