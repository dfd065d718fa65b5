"""Trains a Llama-family model, from random weights or a Hugging Face directory, in any product of
data and tensor parallelism.

    torchrun --nproc-per-node 2 -m trainyard_trainers.llm.train --data tokens/ \\
        --sequence 1024 --batch 32 --parallel.tp 2

A step trains on `batch` sequences, however many ranks share them, so a run that goes on with other
ranks goes on with the same batches.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.distributed as dist
from torch import Tensor

from .. import loop
from ..checkpoints.checkpoint import Saved
from ..checkpoints.checkpointer import Files, load_own, rank_file
from ..common import config, seeds
from ..common.bounds import NOT_NEGATIVE, Bound, at_least
from ..common.config import ConfigError
from ..loop import StepResult, Turn
from ..loop.data import Stream
from ..parallel import nxd_layout
from ..parallel.backend import Backend, BuildConfig, OptimizerConfig, ParallelConfig
from ..parallel.torch_backend import TorchBackend, process_group_backend
from .config import ModelConfig, divisors, read_hf, to_hf
from .model import Llama
from .packing import Batch, PackedData, Packing
from .schedule import cosine
from .weights import HuggingFaceWeights, RandomWeights


@dataclass(frozen=True)
class LlmConfig(loop.LoopConfig):
    """A run's configuration.

    data: directory of token shards (llm/tokens.py). weights: Hugging Face directory to start from;
    "" for random weights. sequence: tokens of a sample. batch: sequences of a step, of all ranks
    together. micro_batch: sequences of a rank that are computed at once, 0: all that it has; the
    gradients of the micro-batches of a step are added up. warmup: steps until the learning rate is
    reached. last_learning_rate: what is left of it at the end, as a share.
    """

    data: str = ""
    weights: str = ""
    sequence: Annotated[int, at_least(1)] = 512
    batch: Annotated[int, at_least(1)] = 8
    micro_batch: Annotated[int, NOT_NEGATIVE] = 0
    packing: Packing = "documents"
    warmup: Annotated[int, NOT_NEGATIVE] = 100
    last_learning_rate: Annotated[float, Bound("is no share; use 0 to 1", ge=0, le=1)] = 0.1
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    build: BuildConfig = field(default_factory=BuildConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise ValueError(
                "data: it is missing; give --data DIRECTORY with token shards (python -m "
                "trainyard_trainers.llm.tokens pack)"
            )
        if self.weights and self.model != ModelConfig():
            raise ValueError(
                f"model: leave its keys out, {self.weights}/config.json says what the model is; or "
                "leave weights out"
            )


def model_config(settings: LlmConfig, vocab_size: int) -> ModelConfig:
    """The model to train on data of this vocabulary. Raises ConfigError where they do not fit."""
    model = read_hf(Path(settings.weights)) if settings.weights else settings.model
    if not model.vocab_size:
        model = replace(model, vocab_size=vocab_size)
    if model.vocab_size != vocab_size:
        raise ConfigError(
            f"model.vocab_size: the model's vocabulary is {model.vocab_size}, that of "
            f"{settings.data} is {vocab_size}; "
            "pack the text with the model's tokenizer (tokens pack --tokenizer, --vocab-size)"
        )
    if settings.sequence > model.max_position_embeddings:
        raise ConfigError(
            f"sequence: {settings.sequence} is longer than model.max_position_embeddings, "
            f"{model.max_position_embeddings}"
        )
    model.check_tp(settings.parallel.tp)
    if settings.parallel.sequence and settings.sequence % settings.parallel.tp:
        raise ConfigError(
            f"sequence: parallel.tp {settings.parallel.tp} does not divide {settings.sequence}; "
            "set parallel.sequence to false"
        )
    return model


def micro_batch(settings: LlmConfig, dp_size: int, samples: int) -> int:
    """Sequences that a rank computes at once. Raises ConfigError, which names values that work."""
    if settings.batch % dp_size:
        below, above = (
            settings.batch // dp_size * dp_size,
            (settings.batch // dp_size + 1) * dp_size,
        )
        advice = f"{below} or {above}" if below else str(above)
        raise ConfigError(
            f"batch: {settings.batch} sequences cannot be shared by {dp_size} data-parallel ranks; "
            f"use {advice}"
        )
    if settings.batch > samples:
        raise ConfigError(
            f"batch: {settings.batch} sequences a step, but {settings.data} holds {samples}; "
            f"{_most(samples, dp_size)}"
        )
    share = settings.batch // dp_size
    size = settings.micro_batch or share
    if share % size:
        works = ", ".join(map(str, divisors(share)))
        raise ConfigError(
            f"micro_batch: {size} does not divide the {share} sequences of a rank (batch / "
            f"data-parallel ranks); use one of {works}"
        )
    return size


def _most(samples: int, dp_size: int) -> str:
    most = samples // dp_size * dp_size
    return (
        f"use at most {most}"
        if most
        else f"use at most {samples} data-parallel ranks, or a shorter sequence"
    )


def process_groups(settings: ParallelConfig) -> str:
    """What init_process_group is to make for a backend."""
    if settings.backend == "torch":
        return process_group_backend(settings)
    from ..parallel import nxd_backend

    return nxd_backend.process_group_backend()


def make_backend(settings: ParallelConfig) -> Backend:
    """What `parallel.backend` names."""
    if settings.backend == "torch":
        return TorchBackend(settings)
    from ..parallel.nxd_backend import NxdBackend

    return NxdBackend(settings)


class Llm:
    """Model, optimizer and data of one rank."""

    def __init__(self, settings: LlmConfig) -> None:
        self.settings = settings
        self.data = PackedData(Path(settings.data), settings.sequence, settings.packing)
        self.config = model_config(settings, self.data.vocab_size)
        self.backend = make_backend(settings.parallel)
        self.ranks = self.backend.ranks
        self.micro_batch = micro_batch(settings, self.ranks.dp_size, len(self.data))
        self.stream = Stream(len(self.data), settings.seed)
        self.step = 0
        checkpointing = settings.build.activation_checkpointing
        self.model = self.backend.build(
            lambda: Llama(self.config, self.backend, activation_checkpointing=checkpointing),
            settings.build,
            settings.optimizer,
        )
        self._has_weights = False
        seeds.seed_rank(settings.seed, dist.get_rank())

    def train_step(self, turn: Turn) -> StepResult:
        if not self._has_weights:  # not before: a run that resumes needs no first weights
            self._start()
        began = time.perf_counter()
        batches, counted = self._next()
        waited = time.perf_counter() - began
        # the mean over all tokens that count, on whatever rank and in whatever micro-batch they
        # are; the backend takes the mean over dp
        scale = self.ranks.dp_size / max(1, counted)
        loss: Tensor | None = None
        for number, batch in enumerate(batches, 1):
            last = number == len(batches)
            with self.backend.forwarding(last=last):
                part = self.model(batch.tokens, batch.targets, batch.positions) * scale
            self.backend.backward(part, last=last)
            loss = part.detach() if loss is None else loss + part.detach()
        turn.before_update()
        norm = self.backend.step(self._learning_rate())
        self.backend.mark_step()
        self.step += 1
        assert loss is not None
        tokens = self.settings.batch * self.settings.sequence // dist.get_world_size()
        return StepResult(loss, tokens, waited, norm)

    def _start(self) -> None:
        settings = self.settings
        self.backend.initialise(
            HuggingFaceWeights(Path(settings.weights))
            if settings.weights
            else RandomWeights(self.config, settings.seed)
        )
        self._has_weights = True

    def _learning_rate(self) -> float:
        settings = self.settings
        return settings.optimizer.learning_rate * cosine(
            self.step, settings.steps, settings.warmup, settings.last_learning_rate
        )

    def _next(self) -> tuple[list[Batch], int]:
        """This rank's micro-batches of the next step, and how many tokens of all ranks count."""
        taken = self.stream.take(self.settings.batch)
        counted = sum(self.data.targets(int(number)) for number in taken)
        own = taken[self.ranks.dp :: self.ranks.dp_size]
        return [
            self._moved(self.data.batch(part)) for part in torch.split(own, self.micro_batch)
        ], counted

    def _moved(self, batch: Batch) -> Batch:
        positions = batch.positions
        if (
            positions is None
            and self.settings.packing == "documents"
            and self.settings.parallel.backend == "nxd"
        ):
            positions = torch.arange(batch.tokens.shape[1]).expand_as(
                batch.tokens
            )  # one graph for all batches
        device = self.backend.device
        return Batch(
            batch.tokens.to(device),
            batch.targets.to(device),
            None if positions is None else positions.to(device),
        )

    # -- checkpoints ------------------------------------------------------------------------------
    def _content(self) -> dict[str, Any]:
        """What is the same on all ranks."""
        return {
            "step": self.step,
            **self.stream.state(),
            "config": to_hf(self.config),
            "data": self.data.identity(),
        }

    def _with_config(self, files: Files) -> dict[str, object]:
        own: dict[str, object] = dict(files)
        if dist.get_rank() == 0:
            own["config.json"] = json.dumps(to_hf(self.config), indent=1).encode()
        return own

    def files(self) -> Files:
        files = self._with_config(self.backend.files(self.step, self._content()))
        files[rank_file(dist.get_rank())] = {"random": seeds.random_state()}
        return files

    def final_files(self) -> Files:
        return self._with_config(self.backend.final_files(self.step, self._content()))

    def restore(self, saved: Saved) -> None:
        checkpoint = nxd_layout.Checkpoint(saved.path / nxd_layout.tag_of(saved.step))
        content = checkpoint.user_content()
        self._check_same("model", content["config"], to_hf(self.config))
        self._check_same("data", content["data"], self.data.identity())
        if int(content["step"]) != saved.step:
            raise ValueError(f"its user content is of step {content['step']}")
        self.stream.restore(content)
        self.step = saved.step
        self.backend.restore(checkpoint)
        self._has_weights = True
        load_own(saved, self.settings.seed)  # the position is in the user content already

    @staticmethod
    def _check_same(key: str, saved: dict[str, Any], present: dict[str, Any]) -> None:
        for name, value in present.items():
            if saved.get(name) != value:
                raise ConfigError(
                    f"{key}.{name}: the checkpoint was trained with {saved.get(name)!r}, this run "
                    f"has {value!r}; "
                    "resume with the same, or start another run"
                )


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.llm.train` under torchrun."""
    settings = config.parse(LlmConfig, argv, prog="trainyard_trainers.llm.train")
    return loop.main(
        lambda: Llm(settings), settings, backend=lambda: process_groups(settings.parallel)
    )


if __name__ == "__main__":
    sys.exit(main())
