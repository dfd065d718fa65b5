"""A tiny BERT is tuned on real ranks: it learns, ends equal after a kill, and loads elsewhere."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.support import forked_jobs, tiny_bert
from tests.support.forked_jobs import ForkedJob, running

from trainyard_trainers.bert import train as bert
from trainyard_trainers.bert.data import encode, read_pairs
from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.loop.data import Stream

STEPS = 36


@pytest.fixture(scope="module", autouse=True)
def _ranks_are_forked_from_here() -> Iterator[None]:
    """This process has imported transformers; ranks that do it themselves take seconds each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked_jobs, "FORKSERVER", multiprocessing.get_context("fork"))
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        torch.set_num_threads(1)
        yield


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert.make(tmp_path_factory.mktemp("model") / "tiny")


def words(tiny: Path, **more: object) -> list[str]:
    settings: dict[str, object] = {
        "model": tiny,
        "train": tiny_bert.SAMPLES / "train.tsv",
        "validation": tiny_bert.SAMPLES / "validation.tsv",
        "batch": 8,
        "max-tokens": 64,
        "steps": STEPS,
        "warmup-steps": 4,
        "learning-rate": 0.003,
        "evaluate-every": 10,
        "schedule": "cosine",
        **more,
    }
    return [word for key, value in settings.items() for word in (f"--{key}", str(value))]


def job(
    run_dir: Path, attempt: int, arguments: list[str], *, ranks: int = 2, target: object = bert.main
) -> ForkedJob:
    environment = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "5"}
    return ForkedJob(run_dir, attempt, target, (arguments,), ranks, environment)  # type: ignore[arg-type]


def content(final: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in final.iterdir() if path.name != "manifest.json"
    }


@pytest.fixture(scope="module")
def uninterrupted(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
    with running(job(run_dir, 1, words(tiny))) as whole:
        assert whole.wait() == [0, 0], whole.log()
    return run_dir


def test_a_fine_tuning_killed_in_the_middle_ends_with_the_bytes_of_one_that_was_not(
    tiny: Path, tmp_path: Path, uninterrupted: Path
) -> None:
    with running(job(tmp_path / "run", 1, words(tiny, **{"step-seconds": 0.5}))) as first:
        first.until("a checkpoint", lambda: list(first.checkpoints.glob("step-*")))
        first.kill()
    with running(job(tmp_path / "run", 2, words(tiny))) as second:
        assert second.wait() == [0, 0], second.log()
    assert "training resumes after step" in second.log()
    assert content(tmp_path / "run" / "final") == content(uninterrupted / "final")
    whole = json.loads(
        (uninterrupted / "attempts" / "1" / "steps.jsonl").read_text().splitlines()[-1]
    )
    assert second.losses()[STEPS] == whole["loss"]


def test_a_run_that_died_after_its_last_step_evaluates_and_leaves_its_model_all_the_same(
    tiny: Path, tmp_path: Path, uninterrupted: Path
) -> None:
    shutil.copytree(uninterrupted, tmp_path / "run", ignore=shutil.ignore_patterns("final"))
    with running(job(tmp_path / "run", 2, words(tiny))) as second:
        assert second.wait() == [0, 0], second.log()
    assert f"training resumes after step {STEPS}" in second.log()
    assert content(tmp_path / "run" / "final") == content(uninterrupted / "final")


def test_the_final_model_loads_with_transformers_and_scores_what_its_metrics_say(
    uninterrupted: Path,
) -> None:
    from sklearn.metrics import f1_score
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    final = uninterrupted / "final"
    model = AutoModelForSequenceClassification.from_pretrained(final, local_files_only=True)
    pairs = encode(
        AutoTokenizer.from_pretrained(final),
        read_pairs(tiny_bert.SAMPLES / "validation.tsv", "validation"),
        64,
    )
    inputs, labels = pairs.batch(range(len(pairs)))
    with torch.no_grad():
        logits = model(**inputs).logits
    metrics = json.loads((final / "metrics.json").read_text())
    last, best = metrics["last"], metrics["best"]
    assert (last["step"], last["pairs"]) == (STEPS, len(pairs))
    assert last["loss"] == pytest.approx(
        float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-5
    )
    assert last["accuracy"] == pytest.approx(
        float((logits.argmax(dim=1) == labels).double().mean())
    )
    assert last["f1"] == pytest.approx(
        f1_score(labels.tolist(), logits.argmax(dim=1).tolist(), zero_division=0)
    )
    assert best["f1"] >= last["f1"]
    assert best["step"] in (10, 20, 30, STEPS)
    assert model.config.id2label == bert.LABELS
    newest = sorted((uninterrupted / "checkpoints").iterdir())[-1]
    model.load_state_dict(torch.load(newest / "model.pt", weights_only=True))
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, logits)


def test_a_tiny_bert_learns_its_training_pairs_by_heart(tiny: Path, tmp_path: Path) -> None:
    arguments = words(
        tiny, validation=tiny_bert.SAMPLES / "train.tsv", steps=120, batch=16, schedule="linear"
    )
    with running(job(tmp_path / "run", 1, arguments, ranks=1)) as learning:
        assert learning.wait() == [0], learning.log()
    last = json.loads((tmp_path / "run" / "final" / "metrics.json").read_text())["last"]
    assert last["accuracy"] > 0.95, learning.log()
    assert last["f1"] > 0.95


def noting(arguments: list[str]) -> int:
    """The trainer, whose stream writes down which samples this rank took."""
    share = Stream.share

    def noted(stream: Stream, count: int, rank: int, world_size: int) -> torch.Tensor:
        taken = share(stream, count, rank, world_size)
        print("took", json.dumps(taken.tolist()), flush=True)
        return taken

    Stream.share = noted  # type: ignore[method-assign]
    return bert.main(arguments)


def taken(run: ForkedJob) -> list[int]:
    lines = [line for line in run.log().splitlines() if line.startswith("took ")]
    return [sample for line in lines for sample in json.loads(line[5:])]


def test_a_run_resumed_on_other_ranks_repeats_no_sample_and_skips_none(
    tiny: Path, tmp_path: Path
) -> None:
    arguments = words(tiny, batch=2, steps=1000, **{"step-seconds": 0.01, "evaluate-every": 0})
    with running(job(tmp_path / "run", 1, arguments, target=noting)) as first:
        first.until_step(2)
        first.signal(signal.SIGTERM)
        assert first.wait() == [143, 143], first.log()
    passes = 3 + len(taken(first)) // 32
    steps = first.step() + (32 * passes - len(taken(first))) // 2
    with running(
        job(
            tmp_path / "run",
            2,
            words(tiny, batch=2, steps=steps, **{"changed-configuration": "accept"}),
            ranks=1,
            target=noting,
        )
    ) as second:
        assert second.wait() == [0], second.log()
    assert sorted(taken(first) + taken(second)) == sorted(list(range(32)) * passes)


def test_both_ranks_score_each_validation_pair_once_between_them(
    tiny: Path, tmp_path: Path
) -> None:
    def scores(ranks: int) -> dict[str, float]:
        run_dir = tmp_path / str(ranks)
        # The rate is so small that both models stay as drawn: only the way of counting differs.
        with running(
            job(run_dir, 1, words(tiny, steps=4, batch=3, **{"learning-rate": 1e-12}), ranks=ranks)
        ) as run:
            assert set(run.wait()) == {0}, run.log()
        return dict(json.loads((run_dir / "final" / "metrics.json").read_text())["last"])

    one, two = scores(1), scores(2)
    assert one["pairs"] == 11
    assert two == pytest.approx(one, rel=1e-5)


def test_other_training_data_under_an_old_checkpoint_are_refused(
    tiny: Path, tmp_path: Path
) -> None:
    with running(
        job(tmp_path / "run", 1, words(tiny, steps=1000, **{"step-seconds": 0.01}))
    ) as first:
        first.until_step(2)
        first.signal(signal.SIGTERM)
        assert first.wait() == [143, 143], first.log()
    other = tmp_path / "other.tsv"
    lines = (tiny_bert.SAMPLES / "train.tsv").read_text(encoding="utf-8").splitlines()
    other.write_text("\n".join([*lines[:5], *lines[6:]]), encoding="utf-8")
    with running(job(tmp_path / "run", 2, words(tiny, train=other))) as second:
        assert second.wait() == [2, 2], second.log()
    assert f"train: {other} or its tokenizer is not what step-" in second.log()


def test_a_model_is_loaded_without_a_look_at_the_network(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"the network was asked: {arguments}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    model, tokenizer = bert.load_pretrained(tiny, 64)
    assert model.config.num_labels == 2
    assert tokenizer.decode(tokenizer("the mill")["input_ids"]) == "[CLS] the mill [SEP]"


def without(tiny: Path, copy: Path, *names: str) -> Path:
    shutil.copytree(tiny, copy)
    for name in names:
        (copy / name).unlink(missing_ok=True)
    return copy


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (
            ("tokenizer.json", "vocab.txt"),
            "has no tokenizer: tokenizer.json or vocab.txt is missing",
        ),
        (
            ("model.safetensors",),
            "has no weights: model.safetensors or model.safetensors.index.json "
            "or pytorch_model.bin is missing",
        ),
        (("config.json",), "has no configuration: config.json is missing"),
    ],
)
def test_a_file_that_is_missing_in_the_model_is_named(
    tiny: Path, tmp_path: Path, gone: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^model: .*copy {message}"):
        bert.load_pretrained(without(tiny, tmp_path / "copy", *gone), 64)


def test_a_model_that_is_a_name_and_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^model: bert-base-uncased is no directory; .*not downloaded"
    ):
        bert.load_pretrained(Path("bert-base-uncased"), 64)


def changed_config(directory: Path, **values: object) -> Path:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, **values}))
    return directory


def test_weights_that_lack_a_layer_are_refused_instead_of_being_drawn_at_random(
    tiny: Path, tmp_path: Path
) -> None:
    deeper = changed_config(without(tiny, tmp_path / "copy"), num_hidden_layers=3)
    with pytest.raises(
        ConfigError,
        match=r"^model: the weights .* lack 16 tensors that config.json asks for, "
        r"bert.encoder.layer.2",
    ):
        bert.load_pretrained(deeper, 64)


def test_weights_of_another_width_are_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^model: .*copy cannot be loaded: "):
        bert.load_pretrained(
            changed_config(without(tiny, tmp_path / "copy"), intermediate_size=80), 64
        )


def test_a_tokenizer_of_another_model_is_refused(tiny: Path, tmp_path: Path) -> None:
    copy = without(tiny, tmp_path / "copy")
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["entirely"] = len(tokenizer["model"]["vocab"])
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(
        ConfigError, match=r"^model: the tokenizer .* tokens, but config.json's vocab_size is"
    ):
        bert.load_pretrained(copy, 64)


def test_more_tokens_than_the_model_has_positions_are_refused(tiny: Path) -> None:
    with pytest.raises(ConfigError, match=r"^max_tokens: 128 .* use at most 64"):
        bert.load_pretrained(tiny, 128)


def test_matrix_products_in_bfloat16_leave_weights_and_optimizer_in_float32(
    tiny: Path, tmp_path: Path
) -> None:
    with running(
        job(tmp_path / "run", 1, words(tiny, steps=6, precision="bfloat16"), ranks=1)
    ) as run:
        assert run.wait() == [0], run.log()
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    moments = torch.load(newest / "optimizer.pt", weights_only=True)["state"].values()
    tensors = [
        *torch.load(newest / "model.pt", weights_only=True).values(),
        *(one["exp_avg"] for one in moments),
    ]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
