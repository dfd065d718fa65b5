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
from torch import Tensor, nn

from trainyard_job.checkpoints.checkpoint import Saved

from .. import loop
from ..checkpoints.checkpointer import Files, load_own, rank_file
from ..common import config, seeds
from ..common.bounds import NOT_NEGATIVE, Bound, at_least
from ..common.config import ConfigError
from ..common.meaning import Meaning
from ..loop import StepResult, Turn
from ..loop.data import Stream
from ..parallel import nxd_layout
from ..parallel.backend import (
    Backend,
    BuildConfig,
    OptimizerConfig,
    ParallelConfig,
    Reader,
    Weights,
)
from ..parallel.torch_backend import TorchBackend, process_group_backend
from . import lora, samples, special_tokens, utilisation
from .config import TOKEN_IDS, ModelConfig, divisors, read_hf, to_hf
from .evaluation import Validation, ValidationConfig
from .lora import LoraConfig
from .model import Llama
from .packing import Batch, PackedData, Packing
from .samples import SamplesConfig
from .schedule import cosine
from .tokenizer import load_tokenizer
from .weights import HuggingFaceWeights, RandomWeights


@dataclass(frozen=True)
class LlmConfig(loop.LoopConfig):
    """A run's configuration."""

    steps: Annotated[
        int,
        at_least(1),
        Meaning("optimizer steps; the learning rate reaches its last share with the last of them"),
    ] = 200
    data: Annotated[
        str,
        # the shards themselves are compared
        Meaning("directory of token shards (python -m trainyard_trainers.llm.tokens)", free=True),
    ] = ""
    weights: Annotated[
        str,
        Meaning(
            "Hugging Face directory to start from; its config.json is the model. None: random "
            "weights",
            free=True,
        ),
    ] = ""
    sequence: Annotated[int, at_least(1), Meaning("tokens of a sample")] = 512
    batch: Annotated[int, at_least(1), Meaning("sequences of a step, of all ranks together")] = 8
    micro_batch: Annotated[
        int,
        NOT_NEGATIVE,
        Meaning(
            "sequences that a rank computes at once; 0: all that it has. The gradients of a step's "
            "micro-batches are added up",
            free=True,
        ),
    ] = 0
    packing: Annotated[
        Packing,
        Meaning(
            "documents: a token sees only its own document; plain: a sample is one text; whole: no "
            "document is divided between samples (for conversations)"
        ),
    ] = "documents"
    warmup: Annotated[int, NOT_NEGATIVE, Meaning("steps until the learning rate is reached")] = 100
    last_learning_rate: Annotated[
        float,
        Bound("is no share; use 0 to 1", ge=0, le=1),
        Meaning("what is left of the learning rate at the end, as a share"),
    ] = 0.1
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    build: BuildConfig = field(default_factory=BuildConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    samples: SamplesConfig = field(default_factory=SamplesConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)

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
        self._check_lora()
        self._check_looks()

    def _check_lora(self) -> None:
        if not self.lora.rank:
            return
        if not self.weights:
            raise ValueError(
                "lora.rank: adapters are trained beside a model that is there; give --weights "
                "DIRECTORY"
            )
        if self.parallel.tp > 1 or self.parallel.backend != "torch":
            raise ValueError(
                "lora.rank: adapters are trained with parallel.tp 1 and parallel.backend torch; "
                "parallel.data fsdp spreads the model over the ranks"
            )

    def _check_looks(self) -> None:
        """Refuse what cannot be looked at while it trains."""
        if self.samples.prompts and self.parallel.tp > 1:
            raise ValueError(
                f"samples.prompts: parallel.tp is {self.parallel.tp}, and texts are written with "
                "whole layers only; leave the prompts out, or use parallel.data fsdp and tp 1"
            )
        for key, wanted in (
            ("validation.data", self.validation.data),
            ("samples.prompts", self.samples.prompts),
        ):
            if wanted and self.parallel.backend == "nxd":
                raise ValueError(f"{key}: the nxd backend only trains; leave it out")


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
    parallel = settings.parallel
    model.check_tp(parallel.tp)
    if model.qk_norm and parallel.backend == "nxd" and parallel.tp > 1 and not parallel.sequence:
        raise ConfigError(
            f"parallel.sequence: {model.model_type} has norms of queries and keys, whose gradients "
            "nxd adds up over the tp ranks only with true"
        )
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


def token_ids(settings: LlmConfig) -> dict[str, Any]:
    """The ids of tokens that begin and end a text, as the directory of the weights or of the data
    has them.
    """
    if settings.weights:
        directory = Path(settings.weights)
        document = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        return special_tokens.ids(document, directory)
    return special_tokens.ids({}, Path(settings.data))


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
        if self.data.cut and dist.get_rank() == 0:
            print(
                f"trainyard: {self.data.cut} documents are longer than sequence "
                f"{settings.sequence}, and their ends are not trained on",
                file=sys.stderr,
                flush=True,
            )
        self.backend = make_backend(settings.parallel)
        self.ranks = self.backend.ranks
        self.micro_batch = micro_batch(settings, self.ranks.dp_size, len(self.data))
        self.stream = Stream(len(self.data), settings.seed)
        self.step = 0
        checkpointing = settings.build.activation_checkpointing
        self.model = self.backend.build(
            lambda: self._adapted(
                Llama(self.config, self.backend, activation_checkpointing=checkpointing)
            ),
            settings.build,
            settings.optimizer,
        )
        self._has_weights = False
        self._token_ids = token_ids(settings)
        self._base = lora.identity(Path(settings.weights)) if settings.lora.rank else []
        self._validation = self._make_validation()
        self._tokenizer = (
            load_tokenizer(settings.samples.tokenizer) if settings.samples.prompts else None
        )
        self._token_seconds = self._at_peak()
        seeds.seed_rank(settings.seed, dist.get_rank())

    def _at_peak(self) -> float:
        """So many seconds a token would take at the device's peak; 0 where that is not known."""
        settings = self.settings
        speed = utilisation.peak(self.backend.device, settings.build.precision)
        operations = utilisation.operations_per_token(self.config, settings.sequence)
        if settings.lora.rank:  # the weights themselves have no gradients: a third less
            operations *= 2 / 3
        return operations / speed if speed else 0.0

    def _adapted(self, model: Llama) -> nn.Module:
        return lora.adapt(model, self.settings.lora) if self.settings.lora.rank else model

    def _make_validation(self) -> Validation | None:
        settings = self.settings
        if not settings.validation.data:
            return None
        return Validation(
            settings.validation, settings.sequence, settings.packing, self.config.vocab_size
        )

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
        self._write_samples()
        return StepResult(
            loss, tokens, waited, norm, self._validated(), tokens * self._token_seconds
        )

    def _validated(self) -> float | None:
        settings = self.settings
        if self._validation is None or not settings.validation.due(self.step, settings.steps):
            return None
        return self._validation.loss(self.model, self.backend, self.micro_batch, self._moved)

    def _write_samples(self) -> None:
        settings = self.settings
        if self._tokenizer is None or not settings.samples.due(self.step, settings.steps):
            return
        spread = settings.parallel.data == "fsdp"
        if dist.get_rank() and not spread:
            return
        model = self.model.module if hasattr(self.model, "module") else self.model
        seed = settings.seed + self.step
        made = samples.written(
            settings.samples, self._tokenizer, model, self.backend, seed=seed, spread=spread
        )
        if dist.get_rank() == 0:
            for prompt, text in zip(settings.samples.prompts, made, strict=True):
                print(f"sample after step {self.step}: {prompt!r} -> {text!r}", flush=True)

    def _start(self) -> None:
        settings = self.settings
        first: Weights = (
            HuggingFaceWeights(Path(settings.weights))
            if settings.weights
            else RandomWeights(self.config, settings.seed)
        )
        if settings.lora.rank:
            shapes = lora.shapes(self.config, settings.lora)
            first = lora.FirstAdapters(first, shapes, settings.seed)
        self.backend.initialise(first)
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
            and self.settings.packing != "plain"
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
            "config": self._hf_config(),
            "data": self.data.identity(),
            **self._of_lora(),
        }

    def _of_lora(self) -> dict[str, Any]:
        """Where the rest of a model lies of which a checkpoint holds the adapters only."""
        settings = self.settings
        if not settings.lora.rank:
            return {}
        place = Path(settings.weights).absolute()
        said = {
            "rank": settings.lora.rank,
            "alpha": settings.lora.alpha,
            "targets": list(settings.lora.targets),
            "weights": str(place),
            "base": self._base,
        }
        return {"lora": said}

    def _with_config(self, files: Files) -> dict[str, object]:
        own: dict[str, object] = dict(files)
        if dist.get_rank() == 0:
            own["config.json"] = json.dumps(self._hf_config(), indent=1).encode()
        return own

    def _hf_config(self) -> dict[str, Any]:
        """For transformers, with what is known of the tokens that begin and end a text."""
        known = {name: value for name, value in self._token_ids.items() if value is not None}
        return {**to_hf(self.config), **known}

    def files(self) -> Files:
        files = self._with_config(self.backend.files(self.step, self._content()))
        files[rank_file(dist.get_rank())] = {"random": seeds.random_state()}
        return files

    def final_files(self) -> Files:
        content = self._content()
        files = self._with_config(self.backend.final_files(self.step, content))
        if self.settings.lora.rank and dist.get_rank() == 0:
            adapters: Any = files[
                f"{nxd_layout.tag_of(self.step)}/model/{nxd_layout.rank_name(0, 0)}"
            ]
            files |= lora.peft_files(self.settings.lora, str(content["lora"]["weights"]), adapters)
        return files

    def restore(self, saved: Saved) -> None:
        checkpoint = nxd_layout.Checkpoint(saved.path / nxd_layout.tag_of(saved.step))
        content = checkpoint.user_content()
        self._check_same("model", content["config"], to_hf(self.config))
        self._check_same("data", content["data"], self.data.identity())
        if int(content["step"]) != saved.step:
            raise ValueError(f"its user content is of step {content['step']}")
        self.stream.restore(content)
        for name in TOKEN_IDS:
            if content["config"].get(name) is not None:
                self._token_ids[name] = content["config"][name]
        self.step = saved.step
        self.backend.restore(self._whole(checkpoint, content))
        self._has_weights = True
        load_own(saved, self.settings.seed)  # the position is in the user content already

    def _whole(self, checkpoint: nxd_layout.Checkpoint, content: dict[str, Any]) -> Reader:
        """The checkpoint, on the model that its adapters belong to. Raises ConfigError."""
        said = content.get("lora")
        if bool(said) != bool(self.settings.lora.rank):
            raise ConfigError(
                f"lora.rank: the checkpoint holds {'adapters' if said else 'a whole model'}, this "
                f"run has {self.settings.lora.rank}; resume with the same, or start another run"
            )
        if not said:
            return checkpoint
        for key, now in (
            ("rank", self.settings.lora.rank),
            ("targets", list(self.settings.lora.targets)),
        ):
            if said[key] != now:
                raise ConfigError(
                    f"lora.{key}: the checkpoint was trained with {said[key]}, this run has {now}; "
                    "resume with the same, or start another run"
                )
        directory = Path(self.settings.weights)
        lora.check_base(directory, said["base"])
        return lora.on_base(checkpoint, HuggingFaceWeights(directory))

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
