"""The command line of the llm trainer that is measured."""

from __future__ import annotations

from pathlib import Path

from bench.llm_jobs import MODEL_50M, VOCABULARY, arguments, model_50m

from trainyard_trainers.common import config
from trainyard_trainers.llm.train import LlmConfig


def test_the_trainer_understands_it_and_has_the_model_by_it() -> None:
    words = arguments(Path("data"), 7, 64, 4, {**MODEL_50M, "vocab_size": VOCABULARY})
    settings = config.parse(LlmConfig, words)
    assert (settings.steps, settings.sequence, settings.batch) == (7, 64, 4)
    assert settings.model == model_50m()
