"""Each number of a trainer's configuration has the bounds that it needs; an error says which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from trainyard_trainers.bert.train import BertConfig
from trainyard_trainers.classify.train import ClassifyConfig
from trainyard_trainers.common import bounds, config
from trainyard_trainers.common.bounds import Bound, Bounded, at_least
from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.ddp.train import DdpConfig
from trainyard_trainers.llm.config import ModelConfig, RopeScaling
from trainyard_trainers.llm.evaluation import ValidationConfig
from trainyard_trainers.llm.samples import SamplesConfig
from trainyard_trainers.llm.train import LlmConfig
from trainyard_trainers.loop import LoopConfig
from trainyard_trainers.parallel.backend import OptimizerConfig, ParallelConfig
from trainyard_trainers.translate import model, train, translate

NEEDED: dict[type[Any], dict[str, Any]] = {
    BertConfig: {"model": Path("m"), "train": Path("t"), "validation": Path("v")},
    LlmConfig: {"data": "tokens"},
    train.TrainConfig: {"train": "text"},
}
AT_LEAST_1 = "is too small; use 1 or more"
NOT_NEGATIVE = "is negative; use 0 or more"
POSITIVE = "must be above 0"
PART = "must be at least 0 and below 1"
REFUSED = [
    (LoopConfig, "steps", 0, AT_LEAST_1),
    (LoopConfig, "log_every", 0, AT_LEAST_1),
    (LoopConfig, "seed", -1, "must be from 0 to 2**62 - 1"),
    (LoopConfig, "seed", 2**62, "must be from 0 to 2**62 - 1"),
    (LoopConfig, "step_seconds", -0.5, "must be from 0 to 86400, a day"),
    (LoopConfig, "step_seconds", 86400.5, "must be from 0 to 86400, a day"),
    (LoopConfig, "peer_seconds", 0.5, "must be from 1 to 86400, a day"),
    (LoopConfig, "save_seconds", 86401.0, "must be from 1 to 86400, a day"),
    (DdpConfig, "steps", 0, AT_LEAST_1),
    (DdpConfig, "learning_rate", 0.0, POSITIVE),
    (DdpConfig, "momentum", 1.0, PART),
    (DdpConfig, "momentum", -0.1, PART),
    (DdpConfig, "noise", -0.1, NOT_NEGATIVE),
    (ClassifyConfig, "batch", 0, AT_LEAST_1),
    (ClassifyConfig, "hidden", 0, AT_LEAST_1),
    (ClassifyConfig, "evaluate_every", -1, "is too small; use 0 or more"),
    (ClassifyConfig, "weight_decay", -0.1, "is too small; use 0 or more"),
    (ClassifyConfig, "learning_rate", 0.0, POSITIVE),
    (ClassifyConfig, "dropout", 1.0, PART),
    (ClassifyConfig, "validation_share", 0.0, "must be between 0 and 1"),
    (ClassifyConfig, "validation_share", 1.0, "must be between 0 and 1"),
    (BertConfig, "batch", 0, AT_LEAST_1),
    (BertConfig, "max_tokens", 7, "is too small; use 8 or more"),
    (BertConfig, "warmup_steps", -1, "is too small; use 0 or more"),
    (BertConfig, "evaluate_every", -1, "is too small; use 0 or more"),
    (BertConfig, "weight_decay", -0.1, "is too small; use 0 or more"),
    (BertConfig, "learning_rate", 0.0, POSITIVE),
    (BertConfig, "max_gradient_norm", 0.0, POSITIVE),
    (LlmConfig, "sequence", 0, AT_LEAST_1),
    (LlmConfig, "batch", 0, AT_LEAST_1),
    (LlmConfig, "micro_batch", -1, NOT_NEGATIVE),
    (LlmConfig, "warmup", -1, NOT_NEGATIVE),
    (LlmConfig, "last_learning_rate", 1.1, "is no share; use 0 to 1"),
    (LlmConfig, "last_learning_rate", -0.1, "is no share; use 0 to 1"),
    (ModelConfig, "hidden_size", 0, AT_LEAST_1),
    (ModelConfig, "intermediate_size", 0, AT_LEAST_1),
    (ModelConfig, "num_hidden_layers", 0, AT_LEAST_1),
    (ModelConfig, "num_attention_heads", 0, AT_LEAST_1),
    (ModelConfig, "max_position_embeddings", 0, AT_LEAST_1),
    (ModelConfig, "vocab_size", -1, NOT_NEGATIVE),
    (ModelConfig, "num_key_value_heads", -1, NOT_NEGATIVE),
    (ModelConfig, "head_dim", -1, NOT_NEGATIVE),
    (ModelConfig, "sliding_window", -1, NOT_NEGATIVE),
    (RopeScaling, "factor", 0.0, POSITIVE),
    (RopeScaling, "low_freq_factor", 0.0, POSITIVE),
    (RopeScaling, "high_freq_factor", -1.0, POSITIVE),
    (RopeScaling, "original_max_position_embeddings", 0, AT_LEAST_1),
    (ValidationConfig, "every", -1, NOT_NEGATIVE),
    (ValidationConfig, "sequences", -1, NOT_NEGATIVE),
    (SamplesConfig, "every", -1, NOT_NEGATIVE),
    (SamplesConfig, "tokens", 0, AT_LEAST_1),
    (SamplesConfig, "temperature", -0.5, NOT_NEGATIVE),
    (ParallelConfig, "tp", 0, AT_LEAST_1),
    (OptimizerConfig, "learning_rate", 0.0, POSITIVE),
    (OptimizerConfig, "epsilon", 0.0, POSITIVE),
    (OptimizerConfig, "beta1", 1.0, PART),
    (OptimizerConfig, "beta2", -0.1, PART),
    (OptimizerConfig, "weight_decay", -0.1, NOT_NEGATIVE),
    (OptimizerConfig, "clip", -0.1, NOT_NEGATIVE),
    (train.TrainConfig, "max_tokens", 1, "is too small; use 2 or more"),
    (train.TrainConfig, "warmup_steps", 0, AT_LEAST_1),
    (train.TrainConfig, "weight_decay", -0.1, "is too small; use 0 or more"),
    (train.TrainConfig, "learning_rate", 0.0, POSITIVE),
    (train.TrainConfig, "max_gradient_norm", 0.0, POSITIVE),
    (
        train.TrainConfig,
        "label_smoothing",
        1.0,
        "is no share of probability; use 0 or more and less than 1",
    ),
    (model.ModelConfig, "layers", 0, AT_LEAST_1),
    (model.ModelConfig, "width", 0, AT_LEAST_1),
    (model.ModelConfig, "heads", 0, AT_LEAST_1),
    (model.ModelConfig, "feed_forward", 0, AT_LEAST_1),
    (
        model.ModelConfig,
        "dropout",
        1.0,
        "is no share of what is dropped; use 0 or more and less than 1",
    ),
    (translate.SearchConfig, "beam", 0, AT_LEAST_1),
    (translate.SearchConfig, "sentences", 0, AT_LEAST_1),
    (
        translate.SearchConfig,
        "length_penalty",
        -0.1,
        "would prefer short sentences without end; use 0 or more",
    ),
]


@pytest.mark.parametrize(("kind", "field", "value", "words"), REFUSED)
def test_a_number_out_of_its_bounds_is_refused_with_the_key_the_value_and_what_would_be_right(
    kind: type[Any], field: str, value: float, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        config.build(kind, {**NEEDED.get(kind, {}), field: value})
    assert str(refused.value) == f"{field}: {value} {words}"


def test_each_bound_of_a_configuration_is_in_this_test() -> None:
    kinds = {kind for kind, *_ in REFUSED}
    declared = {(kind, name) for kind in kinds for name, _ in bounds.bounds(kind)}
    inherited = {
        (kind, name)
        for kind in kinds - {LoopConfig}
        if issubclass(kind, LoopConfig)
        for name, _ in bounds.bounds(LoopConfig)
    }
    assert declared - inherited <= {(kind, field) for kind, field, *_ in REFUSED}


@dataclass(frozen=True)
class Oven(Bounded):
    degrees: Annotated[float, Bound("is no heat", gt=0, le=300)] = 180.0
    trays: Annotated[int, at_least(1)] = 1


@pytest.mark.parametrize("degrees", [0.0, -1.0, 300.5, math.nan, math.inf])
def test_a_bound_keeps_its_own_edges_and_nothing_keeps_it_that_is_no_number(degrees: float) -> None:
    assert Oven(300.0).degrees == 300.0
    with pytest.raises(ValueError, match=f"degrees: {degrees} is no heat"):
        Oven(degrees)


def test_the_first_field_that_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match=r"^degrees: 0\.0 is no heat$"):
        Oven(0.0, 0)


def test_help_shows_the_plain_type_of_a_field_with_bounds() -> None:
    assert "float, default 180.0" in config.describe(Oven)[0]
