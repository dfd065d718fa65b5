"""A language model's configuration that does not fit is refused by key, with values that do."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from trainyard_trainers import loop
from trainyard_trainers.common import config
from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.llm import train
from trainyard_trainers.llm.config import ModelConfig, to_hf
from trainyard_trainers.llm.schedule import cosine
from trainyard_trainers.llm.tokens import write_shard
from trainyard_trainers.llm.train import Llm, LlmConfig, micro_batch, model_config, process_groups
from trainyard_trainers.parallel.backend import OptimizerConfig, ParallelConfig

SMALL = ModelConfig(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
)
SETTINGS = LlmConfig(data="tokens", sequence=16, model=SMALL)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            replace(SETTINGS, model=replace(SMALL, vocab_size=100)),
            "model.vocab_size: the model's vocabulary is 100, that of tokens is 272",
        ),
        (
            replace(SETTINGS, sequence=4096),
            "sequence: 4096 is longer than model.max_position_embeddings, 2048",
        ),
        (
            replace(SETTINGS, parallel=ParallelConfig(tp=4)),
            "parallel.tp: 4 does not divide num_key_value_heads 2; for this model use one of 1, 2",
        ),
        (
            replace(SETTINGS, sequence=15, parallel=ParallelConfig(tp=2)),
            "sequence: parallel.tp 2 does not divide 15",
        ),
    ],
)
def test_a_model_that_does_not_fit_data_or_ranks_is_refused(
    settings: LlmConfig, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        model_config(settings, 272)


def test_a_model_without_a_vocabulary_takes_that_of_the_data() -> None:
    assert model_config(SETTINGS, 272).vocab_size == 272


@pytest.mark.parametrize(
    ("device", "advice"),
    [("cuda", "use cpu or auto"), ("neuron", "needs torch-neuronx 2.13.3 or later")],
)
def test_a_device_that_is_not_here_is_refused_before_the_ranks_meet(
    device: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    parallel = config.build(ParallelConfig, {"device": device})
    with pytest.raises(ConfigError, match=f"^parallel.device: .*{advice}"):
        process_groups(parallel)


def test_the_model_is_that_of_the_directory_of_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(to_hf(replace(SMALL, vocab_size=272, rope_theta=1e6)))
    )
    assert (
        model_config(LlmConfig(data="tokens", weights=str(tmp_path), sequence=16), 272).rope_theta
        == 1e6
    )
    with pytest.raises(ValueError, match="model: leave its keys out"):
        LlmConfig(data="tokens", weights=str(tmp_path), model=SMALL)


@pytest.mark.parametrize(
    ("batch", "micro", "dp_size", "samples", "message"),
    [
        (9, 0, 4, 100, "batch: 9 sequences cannot be shared by 4 data-parallel ranks; use 8 or 12"),
        (4, 0, 8, 100, "batch: 4 sequences cannot be shared by 8 data-parallel ranks; use 8"),
        (
            8,
            3,
            2,
            100,
            "micro_batch: 3 does not divide the 4 sequences of a rank .*; use one of 1, 2, 4",
        ),
        (
            8,
            0,
            8,
            5,
            "batch: 8 sequences a step, but tokens holds 5; "
            "use at most 5 data-parallel ranks, or a shorter sequence",
        ),
        (8, 0, 2, 7, "batch: 8 sequences a step, but tokens holds 7; use at most 6"),
    ],
)
def test_a_batch_that_the_ranks_cannot_share_is_refused_with_one_they_can(
    batch: int, micro: int, dp_size: int, samples: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        micro_batch(replace(SETTINGS, batch=batch, micro_batch=micro), dp_size, samples)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "data: it is missing; give --data DIRECTORY"),
        (
            ["--data", "x", "--model.hiden-size", "64"],
            "model.hiden_size: there is no such key; did you mean model.hidden_size?",
        ),
        (
            ["--data", "x", "--parallel.data", "zero3"],
            "parallel.data: 'zero3' is not one of ddp, zero1, fsdp",
        ),
        (["--data", "x", "--parallel.tp", "0"], "parallel.tp: 0 is too small"),
        (["--data", "x", "--batch", "0"], "batch: 0 is too small"),
        (["--data", "x", "--micro-batch", "-2"], "micro_batch: -2 is negative"),
        (["--data", "x", "--seed", str(2**70)], "seed: 1180591620717411303424 must be from 0"),
        (
            ["--data", "x", "--step-seconds", "-1"],
            "step_seconds: -1.0 must be from 0 to 86400, a day",
        ),
        (
            ["--data", "x", "--optimizer.clip", "nan"],
            "optimizer.clip: 'nan' is not a finite number",
        ),
        (
            ["--data", "x", "--optimizer.beta1", "2"],
            "optimizer.beta1: 2.0 must be at least 0 and below 1",
        ),
        (
            ["--data", "x", "--model.num-key-value-heads", "-2"],
            "model.num_key_value_heads: -2 is negative",
        ),
        (
            ["--data", "x", "--model", "5"],
            "model: '5' is given for what has keys of its own: model.vocab_size",
        ),
        (
            ["--data", "x", "--model", "5", "--model.hidden-size", "8"],
            "model: it is given a value and, with model.hidden_size, keys of its own",
        ),
        (
            ["--data", "x", "--model.hidden-size", "8", "--model", "5"],
            "model: it is given a value and keys of its own",
        ),
    ],
)
def test_a_wrong_command_line_ends_with_the_key(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        train.main(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_learning_rate_warms_up_and_falls_to_its_last_share() -> None:
    rates = [cosine(step, 100, 10, 0.1) for step in range(100)]
    assert rates[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert max(rates) == rates[9] == rates[10] == 1.0
    assert all(one > other for one, other in itertools.pairwise(rates[10:]))
    assert rates[99] == pytest.approx(0.1, abs=1e-3)
    assert cosine(500, 100, 10, 0.1) == pytest.approx(0.1)


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process, with one thread: more slow down tensors this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("alone")
def test_the_trainer_learns_a_text_by_heart_whatever_the_micro_batch(tmp_path: Path) -> None:
    write_shard(
        tmp_path / "a.tokens", [list(b"the quick brown fox jumps over the lazy dog. ") * 4] * 3, 272
    )
    settings = config.build(
        LlmConfig, {"data": str(tmp_path), "sequence": 16, "batch": 8, "steps": 20, "warmup": 2}
    )
    settings = replace(settings, model=SMALL, optimizer=OptimizerConfig(learning_rate=3e-2))
    losses = {}
    for size in (8, 2):
        task = Llm(replace(settings, micro_batch=size))
        losses[size] = [
            float(task.train_step(loop.Turn([0.0] * 5, lambda: None)).loss) for _ in range(20)
        ]
    assert losses[8][0] == pytest.approx(torch.log(torch.tensor(272.0)).item(), abs=0.2)
    assert losses[8][-1] < 1.5
    assert losses[2] == pytest.approx(losses[8], rel=1e-2)


@pytest.mark.usefixtures("alone")
def test_ranks_that_tensor_parallelism_does_not_divide_are_refused(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tokens", [[1] * 200], 272)
    settings = replace(SETTINGS, data=str(tmp_path), parallel=ParallelConfig(tp=2))
    with pytest.raises(
        ConfigError, match=r"parallel.tp: 2 does not divide the 1 ranks; use one of 1"
    ):
        Llm(settings)


FOX = list(b"the quick brown fox jumps over the lazy dog. ") * 4


def fox(directory: Path, **more: object) -> LlmConfig:
    """A text that a small model learns in twenty steps, also as what it is judged by."""
    directory.mkdir(exist_ok=True)
    if not (directory / "a.tokens").exists():
        write_shard(directory / "a.tokens", [FOX] * 3, 272)
    values = {"data": str(directory), "sequence": 16, "batch": 8, "steps": 20, "warmup": 2, **more}
    settings = config.build(LlmConfig, values)
    return replace(settings, model=SMALL, optimizer=OptimizerConfig(learning_rate=3e-2))


def stepped(task: Llm, steps: int) -> list[loop.StepResult]:
    return [task.train_step(loop.Turn([0.0] * 5, lambda: None)) for _ in range(steps)]


@pytest.mark.usefixtures("alone")
def test_the_validation_loss_is_the_mean_over_the_tokens_of_the_held_out_samples(
    tmp_path: Path,
) -> None:
    held_out = {"data": str(tmp_path / "fox"), "every": 3, "sequences": 5}
    task = Llm(replace(fox(tmp_path / "fox", validation=held_out), micro_batch=2))
    results = stepped(task, 6)
    assert [result.validation_loss is not None for result in results] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]
    numbers = torch.tensor([number * len(task.data) // 5 for number in range(5)])
    batch = task.data.batch(numbers)
    with torch.no_grad():
        whole = task.model(batch.tokens, batch.targets, batch.positions)
    expected = float(whole) / int((batch.targets >= 0).sum())
    assert results[5].validation_loss == pytest.approx(expected, rel=1e-5)
    last = replace(fox(tmp_path / "fox", validation={**held_out, "every": 0}), steps=2)
    assert [result.validation_loss is None for result in stepped(Llm(last), 2)] == [True, False]


@pytest.mark.usefixtures("alone")
def test_held_out_data_of_another_vocabulary_are_refused_by_their_key(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    settings = fox(tmp_path / "fox", validation={"data": str(other)})
    with pytest.raises(ConfigError, match=r"^validation\.data: .* has no \*\.tokens file"):
        Llm(settings)
    write_shard(other / "a.tokens", [[1] * 40], 99)
    with pytest.raises(ConfigError, match=r"^validation\.data: .* has a vocabulary of 99, the"):
        Llm(settings)


@pytest.mark.usefixtures("alone")
def test_texts_are_written_while_it_trains_and_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = {"prompts": ["the quick brown ", "fox, "], "tokens": 8, "tokenizer": "bytes"}
    quiet = stepped(Llm(fox(tmp_path / "fox")), 20)
    capsys.readouterr()
    task = Llm(fox(tmp_path / "fox", samples={**looks, "every": 10, "temperature": 0.5}))
    seen = stepped(task, 20)
    assert [float(one.loss) for one in seen] == [float(one.loss) for one in quiet]
    said = capsys.readouterr().out
    assert said.count("sample after step 10: ") == said.count("sample after step 20: ") == 2
    from trainyard_trainers.llm import samples
    from trainyard_trainers.llm.tokenizer import BYTES

    greedy = config.build(samples.SamplesConfig, looks)
    texts = samples.written(greedy, BYTES, task.model, task.backend, seed=1, spread=False)
    text = list(b"the quick brown ")
    with torch.no_grad():
        for _ in range(8):
            text.append(int(task.model(torch.tensor([text]))[0, -1].argmax()))
    assert texts[0].encode() == bytes(text[-8:])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--samples.prompts", "a"], "samples.tokenizer: it is missing, and prompts need it"),
        (
            ["--samples.prompts", "a", "--samples.tokenizer", "bytes", "--parallel.tp", "2"],
            "samples.prompts: parallel.tp is 2, and texts are written with whole layers only",
        ),
        (
            ["--validation.data", "v", "--parallel.backend", "nxd"],
            "validation.data: the nxd backend only trains; leave it out",
        ),
        (
            ["--optimizer.no-decay", "norms,heads"],
            "optimizer.no_decay: 'heads' is not one of norms, biases, embeddings",
        ),
    ],
)
def test_a_look_that_cannot_be_taken_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config.build(LlmConfig, config.read_words(LlmConfig, ["--data", "x", *words]))
    assert str(refused.value).startswith(message)


@pytest.mark.usefixtures("alone")
def test_a_checkpoint_keeps_what_is_known_of_the_tokens_that_end_a_text(tmp_path: Path) -> None:
    settings = fox(tmp_path / "fox")
    (tmp_path / "fox" / "generation_config.json").write_text('{"eos_token_id": 256}')
    task = Llm(settings)
    stepped(task, 1)
    written = json.loads(task.files()["config.json"])  # type: ignore[arg-type]
    assert written["eos_token_id"] == 256
    assert "bos_token_id" not in written
