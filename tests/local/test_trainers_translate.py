"""Translation on real ranks learns a text by heart, translates it, and ends equal after a kill."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.support.forked_jobs import ForkedJob, running
from tests.support.repository import ROOT
from torch.nn import functional

from trainyard_trainers.common import config
from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.loop.data import Stream
from trainyard_trainers.translate import train, translate
from trainyard_trainers.translate.data import Batches, Corpus, ParallelText
from trainyard_trainers.translate.model import Transformer
from trainyard_trainers.translate.translate import SearchConfig, load
from trainyard_trainers.translate.vocabulary import PAD, Vocabulary

SAMPLE = ROOT / "tests/data" / "en-de" / "train"
TINY = {"layers": 1, "width": 16, "heads": 2, "feed-forward": 32}


def words(*, model: dict[str, object], **more: object) -> list[str]:
    settings = {
        "train": SAMPLE,
        "vocabulary-size": 400,
        "max-tokens": 64,
        "tokens-per-batch": 128,
        "learning-rate": 0.004,
        **more,
    }
    settings.update({f"model.{key}": value for key, value in model.items()})
    return [word for key, value in settings.items() for word in (f"--{key}", str(value))]


def job(
    run_dir: Path,
    attempt: int,
    arguments: list[str],
    *,
    ranks: int = 2,
    target: object = train.main,
) -> ForkedJob:
    environment = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "5"}
    return ForkedJob(run_dir, attempt, target, (arguments,), ranks, environment)  # type: ignore[arg-type]


def content(final: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in final.iterdir() if path.name != "manifest.json"
    }


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The final model of a run that saw the sample often enough."""
    run_dir = tmp_path_factory.mktemp("learned") / "run"
    more = {
        "steps": 110,
        "tokens-per-batch": 512,
        "warmup-steps": 40,
        "learning-rate": 0.006,
        "validation": SAMPLE,
    }
    model: dict[str, object] = {
        "layers": 1,
        "width": 64,
        "heads": 4,
        "feed-forward": 128,
        "dropout": 0.0,
    }
    with running(job(run_dir, 1, words(model=model, **more), ranks=1)) as run:
        assert run.wait(120) == [0], run.log()
    return run_dir / "final"


def test_a_tiny_model_learns_the_sample_by_heart(learned: Path) -> None:
    import sacrebleu

    metrics = json.loads((learned / "metrics.json").read_text())
    said, wanted = (
        (path.read_text(encoding="utf-8").splitlines())
        for path in (learned / "validation.de", SAMPLE.with_suffix(".de"))
    )
    assert metrics["bleu"] > 90
    assert metrics["bleu"] == pytest.approx(sacrebleu.corpus_bleu(said, [wanted]).score)
    assert (metrics["step"], metrics["pairs"]) == (110, 32)


def test_the_final_model_translates_lines_in_their_order_and_needs_nothing_but_its_directory(
    learned: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(learned, moved)
    lines = SAMPLE.with_suffix(".en").read_text(encoding="utf-8").splitlines()
    program = [
        sys.executable,
        "-m",
        "trainyard_trainers.translate.translate",
        "--model",
        str(moved),
        "--search.sentences",
        "5",
    ]
    done = subprocess.run(
        program,
        input="\n".join([*lines[:7], "", *lines[7:]]),
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    said = (learned / "validation.de").read_text(encoding="utf-8").splitlines()
    assert done.stdout.splitlines() == [*said[:7], "", *said[7:]]


def test_a_final_model_that_is_damaged_or_not_one_is_refused(learned: Path, tmp_path: Path) -> None:
    cpu, copy = torch.device("cpu"), tmp_path / "copy"
    shutil.copytree(learned, copy)
    content = bytearray((copy / "model.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (copy / "model.pt").write_bytes(content)
    with pytest.raises(
        ConfigError,
        match=r"^model: .*copy is not whole: model.pt does not have the manifest's crc32",
    ):
        load(copy, cpu)
    (copy / "vocabulary.json").unlink()
    with pytest.raises(ConfigError, match=r"^model: .*copy has no vocabulary.json"):
        load(copy, cpu)


@pytest.mark.parametrize(
    ("text", "model", "message"),
    [
        (b"fine\nna\xefve\n", "", "standard input: byte 8 is not UTF-8"),
        (b"fine\n", "absent", "model: {} has no config.json; give the directory `final` of a run"),
    ],
)
def test_the_translating_program_ends_with_status_2_and_what_is_wrong(
    learned: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: bytes,
    model: str,
    message: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    place = str(learned / model)
    assert translate.main(["--model", place]) == 2
    assert message.format(place) in capsys.readouterr().err


def test_no_lines_have_no_translations(learned: Path) -> None:
    model, vocabulary = load(learned, torch.device("cpu"))
    assert translate.read_lines(io.BytesIO(b"")) == []
    assert translate.read_lines(io.BytesIO(b"one\r\n\ntwo")) == ["one\r", "", "two"]
    assert translate.translate(model, vocabulary, [], SearchConfig()) == []
    assert translate.translate(model, vocabulary, ["", " \r"], SearchConfig()) == ["", ""]


def test_three_ranks_killed_in_the_middle_end_with_the_bytes_of_three_that_were_not(
    tmp_path: Path,
) -> None:
    # Large, so that DDP needs more than one bucket; three ranks, so that a sum's order matters.
    model: dict[str, object] = {"layers": 1, "width": 128, "heads": 4, "feed-forward": 768}
    whole = words(model=model, steps=16, **{"warmup-steps": 8})
    with running(job(tmp_path / "whole", 1, whole, ranks=3)) as uninterrupted:
        assert uninterrupted.wait() == [0, 0, 0], uninterrupted.log()
    with running(
        job(tmp_path / "run", 1, [*whole, "--step-seconds", "0.02", "--steps", "1000"], ranks=3)
    ) as first:
        first.until("a checkpoint", lambda: list(first.checkpoints.glob("step-*")))
        first.kill()
    with running(job(tmp_path / "run", 2, whole, ranks=3)) as second:
        assert second.wait() == [0, 0, 0], second.log()
    assert "training resumes after step" in second.log()
    assert second.step() == 16
    assert content(tmp_path / "run" / "final") == content(tmp_path / "whole" / "final")
    assert (tmp_path / "run" / "final" / "model.pt").stat().st_size > 1 << 20
    assert second.losses()[16] == uninterrupted.losses()[16]


def test_two_ranks_make_the_step_of_one_that_has_the_tokens_of_both(tmp_path: Path) -> None:
    model = {**TINY, "dropout": 0.0}
    arguments = words(model=model, steps=1, **{"warmup-steps": 1, "max-gradient-norm": 1e9})
    with running(job(tmp_path / "run", 1, arguments)) as run:
        assert run.wait() == [0, 0], run.log()
    settings = config.parse(train.TrainConfig, arguments)
    text = ParallelText("train", str(SAMPLE), "en", "de")
    vocabulary = Vocabulary(
        (tmp_path / "run" / "final" / "vocabulary.json").read_text(encoding="utf-8")
    )
    corpus = Corpus.of(text, vocabulary, 64)
    batches = Batches(corpus, 128, settings.seed)
    pairs = torch.cat(
        [batches[int(batch)] for batch in Stream(len(batches), settings.seed).take(2)]
    )
    torch.manual_seed(settings.seed)
    one = Transformer(settings.model, len(vocabulary))
    source, read, wanted = corpus.batch(pairs)
    loss = functional.cross_entropy(
        one(source, read).flatten(0, 1), wanted.flatten(), ignore_index=PAD, label_smoothing=0.1
    )
    loss.backward()  # type: ignore[no-untyped-call]
    torch.optim.AdamW(
        one.parameters(), lr=0.004, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0
    ).step()
    assert run.losses()[1] == pytest.approx(float(loss.detach()), rel=1e-5)
    both = torch.load(tmp_path / "run" / "final" / "model.pt", weights_only=True)
    # A softmax does not feel what is added to all keys. So their biases have a gradient of nothing
    # but rounding, and Adam makes much of it.
    apart = torch.cat(
        [
            (both[name] - weight).flatten()
            for name, weight in one.state_dict().items()
            if not name.endswith("key.bias")
        ]
    )
    assert float((apart.abs() > 1e-5).double().mean()) < 0.01


def noting(arguments: list[str]) -> int:
    """The trainer, whose stream writes down which batches all ranks together took."""
    take = Stream.take

    def noted(stream: Stream, count: int) -> torch.Tensor:
        taken = take(stream, count)
        if dist.get_rank() == 0:
            print("took", json.dumps([stream.length, taken.tolist()]), flush=True)
        return taken

    Stream.take = noted  # type: ignore[method-assign]
    return train.main(arguments)


def taken(run: ForkedJob) -> tuple[int, list[int]]:
    """(batches a pass, the batches that were taken)."""
    lines = [json.loads(line[5:]) for line in run.log().splitlines() if line.startswith("took ")]
    return lines[0][0], [batch for _, batches in lines for batch in batches]


def test_a_run_resumed_on_other_ranks_repeats_no_batch_and_skips_none(tmp_path: Path) -> None:
    endless = words(model=TINY, steps=1000, **{"step-seconds": 0.01})
    with running(job(tmp_path / "run", 1, endless, target=noting)) as first:
        first.until_step(2)
        first.signal(signal.SIGTERM)
        assert first.wait() == [143, 143], first.log()
    length, before = taken(first)
    assert length > 5
    passes = len(before) // length + 2
    steps = first.step() + length * passes - len(before)
    with running(
        job(tmp_path / "run", 2, words(model=TINY, steps=steps), ranks=1, target=noting)
    ) as second:
        assert second.wait() == [0], second.log()
    assert sorted(before + taken(second)[1]) == sorted(list(range(length)) * passes)


def test_another_text_under_an_old_checkpoint_is_refused_and_so_are_more_ranks_than_batches(
    tmp_path: Path,
) -> None:
    with running(
        job(tmp_path / "run", 1, words(model=TINY, steps=1000, **{"step-seconds": 0.01}))
    ) as first:
        first.until_step(2)
        first.signal(signal.SIGTERM)
        assert first.wait() == [143, 143], first.log()
    pairs = zip(
        *(
            SAMPLE.with_suffix(f".{side}").read_text(encoding="utf-8").splitlines()
            for side in ("en", "de")
        ),
        strict=True,
    )
    other = tmp_path / "other.tsv"
    other.write_text(
        "".join(f"{english}\t{german}\n" for english, german in list(pairs)[:-1]), encoding="utf-8"
    )
    with running(
        job(tmp_path / "run", 2, words(model=TINY, train=other, **{"tokens-per-batch": 100}))
    ) as second:
        assert second.wait() == [2, 2], second.log()
    assert f"train: {other} gives other batches than step-" in second.log()
    empty = tmp_path / "empty.tsv"
    empty.write_text("")
    with running(job(tmp_path / "empty", 1, words(model=TINY, train=empty))) as nothing:
        assert nothing.wait() == [2, 2], nothing.log()
    with running(
        job(tmp_path / "few", 1, words(model=TINY, **{"tokens-per-batch": 4096}))
    ) as third:
        assert third.wait() == [2, 2], third.log()
    assert (
        f"tokens_per_batch: 4096 make 1 batches of {SAMPLE}, but each of 2 ranks takes one a step"
        in third.log()
    )
