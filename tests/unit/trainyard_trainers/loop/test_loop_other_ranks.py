"""A run that resumes on another number of ranks says so, in the same words whatever trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.support import tiny_bert

from trainyard_job.checkpoints import checkpoint
from trainyard_job.checkpoints.checkpoint import Saved
from trainyard_trainers.bert.train import Bert, BertConfig
from trainyard_trainers.checkpoints.writer import content_writer
from trainyard_trainers.classify.train import Classify, ClassifyConfig
from trainyard_trainers.common import config
from trainyard_trainers.ddp.train import Ddp, DdpConfig
from trainyard_trainers.llm.tokens import write_shard
from trainyard_trainers.llm.train import Llm, LlmConfig
from trainyard_trainers.loop import Task
from trainyard_trainers.translate.train import TrainConfig, Translate

SAID = (
    "trainyard: the run resumes on another number of ranks, "
    "1 instead of 4: each draws new random numbers\n"
)
TINY = {"layers": 1, "width": 16, "heads": 2, "feed-forward": 32}
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
}


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A process group of this process alone, with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    torch.set_num_threads(threads)


def ddp(_: Path) -> Task:
    return Ddp(DdpConfig())


def classify(place: Path) -> Task:
    data = place / "images.pt"
    torch.save({"images": torch.rand(20, 2, 2), "labels": torch.arange(20) % 2}, data)
    return Classify(ClassifyConfig(data=str(data), batch=4))


def bert(place: Path) -> Task:
    samples = tiny_bert.SAMPLES
    return Bert(
        BertConfig(
            model=tiny_bert.make(place / "tiny"),
            train=samples / "train.tsv",
            validation=samples / "validation.tsv",
            batch=2,
            max_tokens=64,
        )
    )


def translate(_: Path) -> Task:
    values = {"vocabulary_size": 400, "max_tokens": 64, "tokens_per_batch": 128, "model": TINY}
    train = tiny_bert.SAMPLES.parent / "en-de" / "train"
    return Translate(config.build(TrainConfig, {"train": str(train), **values}))


def llm(place: Path) -> Task:
    write_shard(place / "a.tokens", [[1] * 200], 272)
    values = {"data": str(place), "sequence": 16, "batch": 2, "model": SMALL}
    return Llm(config.build(LlmConfig, values))


def written(task: Task, place: Path) -> Saved:
    for name, content in task.files().items():
        checkpoint.write_file(place, name, content_writer(content))
    return Saved(place, 0, 1, 1)


@pytest.mark.parametrize("trainer", [ddp, classify, bert, translate, llm])
def test_every_trainer_says_that_it_resumes_on_another_number_of_ranks(
    trainer: Callable[[Path], Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = trainer(tmp_path)
    saved = written(task, tmp_path / "step")
    task.restore(saved)
    assert "another number of ranks" not in capsys.readouterr().err
    task.restore(replace(saved, world_size=4))
    assert capsys.readouterr().err.count(SAID) == 1
