"""What a language model's run shows and keeps while it trains, on several ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.support.forked_jobs import ForkedJob, running
from tests.support.llm_modes import MODEL, write_documents
from tests.support.nxd_samples import weights, write

from trainyard_trainers.llm import convert, train
from trainyard_trainers.llm.config import to_hf
from trainyard_trainers.parallel import nxd_layout

SHAPE = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("looks") / "tokens")


def words(tokens: Path, *more: str, steps: int = 6) -> list[str]:
    given = {"data": tokens, "steps": steps, "batch": 8, "sequence": 16, "warmup": 2}
    given["optimizer.learning-rate"] = 0.01
    return [*(word for key, value in given.items() for word in (f"--{key}", str(value))), *more]


def shape() -> list[str]:
    pairs = ((f"--model.{name.replace('_', '-')}", str(getattr(MODEL, name))) for name in SHAPE)
    return [word for pair in pairs for word in pair]


def job(run_dir: Path, attempt: int, argv: list[str], ranks: int) -> ForkedJob:
    every = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "2", "TRAINYARD_CHECKPOINT_KEEP": "1"}
    return ForkedJob(run_dir, attempt, train.main, (argv,), ranks, every)


def finished(run_dir: Path, argv: list[str], ranks: int, attempt: int = 1) -> ForkedJob:
    with running(job(run_dir, attempt, argv, ranks)) as done:
        assert done.wait() == [0] * ranks, done.log()
    return done


def validations(run: ForkedJob) -> dict[int, float]:
    lines = map(json.loads, (run.directory / "steps.jsonl").read_text().splitlines())
    return {line["step"]: line["validationLoss"] for line in lines if "validationLoss" in line}


def test_validation_is_the_same_on_any_ranks_and_the_best_checkpoint_stays(
    tmp_path: Path, tokens: Path
) -> None:
    held_out = write_documents(tmp_path / "held-out", seed=8, tokens=300)
    more = [*shape(), "--validation.data", str(held_out), "--validation.every", "2"]
    found = {
        name: finished(tmp_path / name, words(tokens, *more, "--parallel.data", name), ranks)
        for name, ranks in {"ddp": 1, "fsdp": 2, "zero1": 2}.items()
    }
    expected = validations(found["ddp"])
    assert set(expected) == {2, 4, 6}
    for run in found.values():
        assert validations(run) == pytest.approx(expected, rel=1e-4)
        said = json.loads((run.run_dir / "final" / "validation.json").read_text())
        assert said["best"]["loss"] == pytest.approx(min(expected.values()), rel=1e-4)
        assert (run.checkpoints / said["best"]["checkpoint"] / "manifest.json").exists()
        assert json.loads((run.run_dir / "best.json").read_text())["best"] == said["best"]
        assert len(list(run.checkpoints.glob("step-*"))) <= 2


def test_texts_are_written_by_the_first_rank_of_a_model_that_is_spread(
    tmp_path: Path, tokens: Path
) -> None:
    tokens = write_bytes(tmp_path / "bytes")
    looks = ["--samples.prompts", "ab,cd", "--samples.tokenizer", "bytes", "--samples.every", "3"]
    for data, ranks in (("ddp", 2), ("fsdp", 2)):
        argv = words(tokens, *shape(), *looks, "--parallel.data", data)
        log = finished(tmp_path / data, argv, ranks).log()
        assert log.count("sample after step 3: ") == log.count("sample after step 6: ") == 2


def write_bytes(directory: Path) -> Path:
    from trainyard_trainers.llm.tokenizer import BYTES
    from trainyard_trainers.llm.tokens import pack

    directory.mkdir()
    text = directory / "text.txt"
    text.write_text("abcdefghij " * 200)
    pack([text], BYTES, directory / "tokens")
    return directory / "tokens"


def test_a_changed_learning_rate_stops_a_resume_until_it_is_accepted(
    tmp_path: Path, tokens: Path
) -> None:
    run_dir = tmp_path / "run"
    finished(run_dir, words(tokens, *shape()), 2)
    other = words(tokens, *shape(), "--optimizer.learning-rate", "0.02")
    with running(job(run_dir, 2, other, 2)) as second:
        assert second.wait() == [2, 2]
    assert "optimizer.learning_rate: step-000000000006-attempt-1 was trained with 0.01, " in (
        second.log()
    )
    third = finished(run_dir, [*other, "--changed-configuration", "accept"], 2, attempt=3)
    assert "the configuration changed: optimizer.learning_rate: " in third.log()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("base")
    source = write(directory, weights(MODEL), 1, config=to_hf(MODEL))
    convert.to_hf(source.path, directory / "hf", check="never")
    return directory / "hf"


@pytest.mark.parametrize("data", ["ddp", "fsdp", "zero1"])
def test_adapters_train_on_two_ranks_as_on_one_and_resume(
    tmp_path: Path, tokens: Path, base: Path, data: str
) -> None:
    more = ["--weights", str(base), "--lora.rank", "4", "--parallel.data", data]
    one = finished(tmp_path / "one", words(tokens, *more[:4]), 1)
    two = finished(tmp_path / "two", words(tokens, *more), 2)
    assert two.losses() == pytest.approx(one.losses(), rel=1e-4)
    finished(tmp_path / "cut", words(tokens, *more, steps=4), 2)
    accept = ["--changed-configuration", "accept"]
    again = finished(tmp_path / "cut", words(tokens, *more, *accept), 2, attempt=2)
    assert set(again.losses()) == {5, 6}
    merged = convert.to_hf(tmp_path / "two" / "final", tmp_path / "hf", check="always")
    assert merged.difference is not None


def test_under_fsdp_every_rank_writes_its_share_of_the_final_model(
    tmp_path: Path, tokens: Path
) -> None:
    run = finished(tmp_path / "run", words(tokens, *shape(), "--parallel.data", "fsdp"), 2)
    found = nxd_layout.Checkpoint(run.run_dir / "final" / "step_6")
    found.validate()
    assert found.sharded
    sizes = [path.stat().st_size for path in (found.path / "model").iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < 1.5 * min(sizes)
    plain = finished(tmp_path / "plain", words(tokens, *shape()), 2)
    whole = nxd_layout.Checkpoint(plain.run_dir / "final" / "step_6")
    for name in whole.names():
        assert torch.allclose(found.full(name), whole.full(name), atol=1e-5), name
    assert convert.to_hf(run.run_dir / "final", tmp_path / "hf").difference is not None
