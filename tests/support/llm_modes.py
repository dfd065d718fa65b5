"""What the language model's tests run on several ranks: small models in every parallelism."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainyard_trainers import loop
from trainyard_trainers.llm import train
from trainyard_trainers.llm.config import ModelConfig
from trainyard_trainers.llm.model import Llama
from trainyard_trainers.llm.packing import Batch, PackedData
from trainyard_trainers.llm.tokens import write_shard
from trainyard_trainers.llm.weights import RandomWeights
from trainyard_trainers.parallel.backend import BuildConfig, OptimizerConfig, ParallelConfig
from trainyard_trainers.parallel.torch_backend import TorchBackend

MODEL = ModelConfig(
    vocab_size=96,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.1,
)
SEQUENCE, BATCH, STEPS = 16, 8, 3
Mode = tuple[ParallelConfig, BuildConfig]


def write_documents(directory: Path, seed: int = 5, tokens: int = 1200) -> Path:
    """Two shards of documents of 3 to 40 tokens."""
    generator = torch.Generator().manual_seed(seed)
    directory.mkdir()
    for number in range(2):
        documents, count = [], 0
        while count < tokens:
            length = int(torch.randint(3, 41, (), generator=generator))
            documents.append(
                torch.randint(0, MODEL.vocab_size, (length,), generator=generator).tolist()
            )
            count += length
        write_shard(directory / f"shard-{number}.tokens", documents, MODEL.vocab_size)
    return directory


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (BATCH, SEQUENCE + 1), and positions of two documents in each sequence."""
    tokens = torch.randint(
        0, MODEL.vocab_size, (BATCH, SEQUENCE + 1), generator=torch.Generator().manual_seed(step)
    )
    return tokens, torch.cat((torch.arange(6), torch.arange(SEQUENCE - 6))).expand(BATCH, -1)


def few_steps(mode: Mode, clip: float = 1.0, config: ModelConfig = MODEL) -> dict[str, Any]:
    """Losses, gradient norms before clipping, and the first step's gradients.

    There are STEPS steps of two micro-batches each.
    """
    parallel, build = mode
    backend = TorchBackend(parallel)
    checkpointing = build.activation_checkpointing
    model = backend.build(
        lambda: Llama(config, backend, activation_checkpointing=checkpointing),
        build,
        OptimizerConfig(learning_rate=1e-2, clip=clip),
    )
    backend.initialise(RandomWeights(config, 3))
    losses, norms, gradients = [], [], {}
    for step in range(STEPS):
        tokens, positions = batch(step)
        own = tokens[backend.ranks.dp :: backend.ranks.dp_size]
        total = torch.zeros(())
        for half in (0, 1):
            part = own.chunk(2)[half]
            with backend.forwarding(last=half == 1):
                loss = model(part[:, :-1], part[:, 1:], positions[: len(part)]) * (
                    backend.ranks.dp_size / (BATCH * SEQUENCE)
                )
            backend.backward(loss, last=half == 1)
            total += loss.detach()
        if step == 0:
            gradients = {
                name: whole(parameter.grad).tolist() for name, parameter in model.named_parameters()
            }
        norms.append(backend.step(1e-2))
        dist.all_reduce(total)
        losses.append(float(total) / dist.get_world_size())
    return {"losses": losses, "norms": norms, "gradients": gradients}


def whole(gradient: Any) -> torch.Tensor:
    found: torch.Tensor = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
    return found


def run_modes(modes: dict[str, Mode], output: str, config: ModelConfig = MODEL) -> int:
    """Every mode in turn in one process group; rank 0 writes what came out as JSON."""
    dist.init_process_group("gloo")
    found = {name: few_steps(mode, config=config) for name, mode in modes.items()}
    if dist.get_rank() == 0:
        Path(output).write_text(json.dumps(found))
    dist.destroy_process_group()
    return 0


#: Late enough for a checkpoint every two steps, which is written beside the next step.
HELD_STEP = 5


class NotingData(PackedData):
    """Notes the numbers of the samples that are read."""

    noted: list[int]

    def batch(self, numbers: torch.Tensor) -> Batch:
        self.noted += numbers.tolist()
        return super().batch(numbers)


class NotingLlm(train.Llm):
    """Writes down which samples each data-parallel rank trained on in each step."""

    def __init__(self, settings: train.LlmConfig) -> None:
        super().__init__(settings)
        self.data = NotingData(Path(settings.data), settings.sequence, settings.packing)

    def train_step(self, turn: loop.Turn) -> loop.StepResult:
        self.data.noted = []
        result = super().train_step(turn)
        if self.ranks.tp == 0:
            path = (
                Path(os.environ["TRAINYARD_RUN_DIR"])
                / f"samples-{os.environ['TRAINYARD_ATTEMPT']}-{self.ranks.dp}.jsonl"
            )
            with open(path, "a") as stream:
                stream.write(json.dumps([self.step, self.data.noted]) + "\n")
        while self.step >= HELD_STEP and hold(Path(os.environ["TRAINYARD_RUN_DIR"])).exists():
            time.sleep(0.01)
        return result


def hold(run_dir: Path) -> Path:
    """While this file is there, no attempt of the run gets beyond HELD_STEP."""
    return run_dir / "hold"


def noting_main(argv: list[str]) -> int:
    """`train.main` with a trainer that notes its samples."""
    train.Llm = NotingLlm  # type: ignore[misc]  # in this process, which ends with it
    return train.main(argv)
