"""A checkpoint knows the configuration it was trained with; another is not taken silently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from trainyard_trainers.bert.train import BertConfig
from trainyard_trainers.classify.train import ClassifyConfig
from trainyard_trainers.common import config
from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.common.meaning import Meaning, meanings
from trainyard_trainers.ddp.train import DdpConfig
from trainyard_trainers.llm.train import LlmConfig
from trainyard_trainers.loop import configuration
from trainyard_trainers.translate.train import TrainConfig
from trainyard_trainers.translate.translate import TranslateConfig

TRAINERS = [BertConfig, ClassifyConfig, DdpConfig, LlmConfig, TrainConfig, TranslateConfig]


@dataclass(frozen=True)
class Rates:
    learning: Annotated[float, Meaning("of the weights")] = 0.1
    shown: Annotated[int, Meaning("lines", free=True)] = 3


@dataclass(frozen=True)
class Small:
    batch: Annotated[int, Meaning("samples")] = 8
    sizes: tuple[int, ...] = (1, 2)
    place: Annotated[Path, Meaning("files", free=True)] = Path("here")
    rates: Rates = field(default_factory=Rates)


def saved(directory: Path, given: Any) -> Path:
    checkpoint = directory / "step-000000000007-attempt-1"
    checkpoint.mkdir()
    (checkpoint / configuration.NAME).write_bytes(configuration.content(given))
    return checkpoint


def test_what_a_checkpoint_keeps_is_a_configuration_again(tmp_path: Path) -> None:
    given = Small(16, (3,), Path("there"), Rates(0.5, 9))
    path = saved(tmp_path, given) / configuration.NAME
    assert json.loads(path.read_text()) == {"batch": 16, "sizes": [3], "rates": {"learning": 0.5}}
    read = config.build(Small, config.read_words(Small, ["--config", str(path)]))
    assert read == Small(16, (3,), Path("here"), Rates(0.5, 3))


def test_the_same_configuration_resumes_and_so_does_one_with_other_places(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, Small())
    for now in (Small(), Small(place=Path("there"), rates=Rates(shown=5))):
        assert configuration.check(now, checkpoint, accept=False) == ""


def test_each_value_that_changed_is_named_with_both_and_with_the_way_on(tmp_path: Path) -> None:
    checkpoint, now = saved(tmp_path, Small()), Small(batch=16, rates=Rates(learning=0.2))
    with pytest.raises(ConfigError) as refused:
        configuration.check(now, checkpoint, accept=False)
    assert str(refused.value) == (
        "batch: step-000000000007-attempt-1 was trained with 8, this run has 16; "
        "rates.learning: step-000000000007-attempt-1 was trained with 0.1, this run has 0.2; "
        "resume with the same, or add --changed-configuration accept to go on with what this run "
        "has"
    )
    assert "batch: " in configuration.check(now, checkpoint, accept=True)


def test_an_older_checkpoint_is_not_asked_for_keys_that_it_does_not_know(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, Small())
    (checkpoint / configuration.NAME).write_text('{"batch": 8, "gone": 1}')
    assert configuration.check(Small(sizes=(9,)), checkpoint, accept=False) == ""
    (checkpoint / configuration.NAME).unlink()
    assert configuration.check(Small(batch=1), checkpoint, accept=False) == ""


def keys(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, type[Any], str]]:
    for one in fields(kind):
        made: Any = one.default_factory
        if isinstance(made, type) and is_dataclass(made):
            yield from keys(made, f"{prefix}{one.name}.")
        else:
            yield prefix + one.name, kind, one.name


@pytest.mark.parametrize("kind", TRAINERS)
def test_every_key_of_every_trainer_says_in_the_help_what_it_means(kind: type[Any]) -> None:
    lines = config.describe(kind)
    for key, owner, name in keys(kind):
        assert name in meanings(owner), f"{key} has no Meaning"
        line = next(line for line in lines if line.startswith(f"  --{key.replace('_', '-')} "))
        first = meanings(owner)[name].text.split()[0]
        assert first in line.split("\n", 1)[1]
        assert max(map(len, line.split("\n")[1:])) <= 92


def test_what_shapes_the_training_is_kept_and_where_it_runs_is_not() -> None:
    given = LlmConfig(data="tokens")
    kept = configuration.shaping(given)
    assert kept["batch"] == 8
    assert kept["optimizer"]["learning_rate"] == 3e-4
    assert kept["model"]["rope_scaling"]["rope_type"] == "default"
    assert kept["parallel"] == kept["samples"] == {}
    assert {"data", "weights", "micro_batch", "log_every"}.isdisjoint(kept)
    assert configuration.shaping(replace(given, asynchronous=False)) == kept
