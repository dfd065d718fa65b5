"""Jobs of the llm trainer to measure: random tokens, a model of a size, ranks under torchrun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard_trainers.common import config

#: About 50 million parameters.
MODEL_50M = {
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 13,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
}
VOCABULARY = 8192


def model_50m() -> Any:
    """The model as a `ModelConfig`."""
    from trainyard_trainers.llm.config import ModelConfig

    return config.build(ModelConfig, {**MODEL_50M, "vocab_size": VOCABULARY})


def make_tokens(directory: Path, tokens: int) -> Path:
    """Shards of random tokens in documents of 200; the same each time."""
    import torch

    from trainyard_trainers.llm import tokens as shards

    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(VOCABULARY, (tokens // 200, 200), generator=generator).tolist()
    directory.mkdir(parents=True)
    shards.write_shard(directory / "random.tokens", numbers, VOCABULARY)
    return directory


def arguments(
    data: Path, steps: int, sequence: int, batch: int, model: Mapping[str, int]
) -> list[str]:
    """The llm trainer's command line."""
    options: dict[str, Any] = {
        "data": data,
        "steps": steps,
        "sequence": sequence,
        "batch": batch,
        "log-every": 1000,
    }
    options |= {f"model.{name}": value for name, value in model.items()}
    return [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def torchrun(
    program: Sequence[str], run_dir: Path, environment: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Run a trainer on 2 ranks to its end; returns the lines of its steps.jsonl.

    Raises SystemExit with its last words when it fails.
    """
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29611",
        *program,
    ]
    ours = {"TRAINYARD_RUN_DIR": str(run_dir), "OMP_NUM_THREADS": "1", **(environment or {})}
    done = subprocess.run(
        command, env={**os.environ, **ours}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with "
            f"{done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return [
        json.loads(line)
        for line in (run_dir / "attempts" / "1" / "steps.jsonl").read_text().splitlines()
    ]
