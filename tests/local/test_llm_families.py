"""The relatives of Llama train alike in every parallelism: biases and norms of heads, too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_jobs import ForkedJob, running
from tests.support.llm_modes import MODEL, Mode, run_modes

from trainyard_trainers.llm.config import ModelConfig, RopeScaling
from trainyard_trainers.parallel.backend import BuildConfig, ParallelConfig

EAGER = BuildConfig()
ONE = {"one": (ParallelConfig(), EAGER)}
TWO = {
    "ddp": (ParallelConfig(), EAGER),
    "zero1": (ParallelConfig(data="zero1"), EAGER),
    "fsdp": (ParallelConfig(data="fsdp"), EAGER),
    "tp": (ParallelConfig(tp=2), EAGER),
    "tp, whole sequences": (ParallelConfig(tp=2, sequence=False), EAGER),
}
FAMILIES = {
    "qwen2": replace(MODEL, model_type="qwen2", tie_word_embeddings=True),
    "qwen3": replace(MODEL, model_type="qwen3", head_dim=16),
    "mistral": replace(MODEL, model_type="mistral", sliding_window=4),
    "llama3": replace(MODEL, rope_scaling=RopeScaling("llama3", 8.0, 1.0, 4.0, 16)),
}


def outcome(directory: Path, modes: dict[str, Mode], ranks: int, model: ModelConfig) -> Any:
    output = directory / f"{ranks}.json"
    job = ForkedJob(directory / str(ranks), 1, run_modes, (modes, str(output), model), ranks)
    with running(job):
        assert job.wait(120) == [0] * ranks, job.log()
    return json.loads(output.read_text())


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_norms_and_gradients_are_those_of_one_rank(tmp_path: Path, family: str) -> None:
    one = outcome(tmp_path, ONE, 1, FAMILIES[family])["one"]
    two = outcome(tmp_path, TWO, 2, FAMILIES[family])
    for mode, found in two.items():
        assert found["losses"] == pytest.approx(one["losses"], rel=1e-5), mode
        assert found["norms"] == pytest.approx(one["norms"], rel=1e-4), mode
    for name, gradient in one["gradients"].items():
        if name.endswith(".bias") or "_norm" in name:
            largest = max(map(abs, gradient))
            assert two["tp"]["gradients"][name] == pytest.approx(gradient, abs=1e-4 * largest), name
