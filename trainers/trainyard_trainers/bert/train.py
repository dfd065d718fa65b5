"""Fine-tunes BERT, or another encoder of a Hugging Face directory, to judge whether two sentences
say the same (MRPC).

    torchrun --nproc-per-node 2 -m trainyard_trainers.bert --model DIRECTORY \\
        --train train.tsv --validation dev.tsv

J. Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding"
(2019); W. B. Dolan and C. Brockett, "Automatically Constructing a Corpus of Sentential Paraphrases"
(2005). Resume is exact, dropout included.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainyard_job.checkpoints.checkpoint import Saved

from .. import loop
from ..checkpoints.checkpointer import Files, load, load_own, rank_file
from ..common import config, packages, seeds
from ..common.bounds import POSITIVE, at_least
from ..common.config import ConfigError
from ..common.meaning import Meaning
from ..loop import StepResult, Turn
from ..loop.data import Stream, check_batch
from ..parallel import data_parallel
from .data import Encoded, encode, read_pairs

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
TOKENIZERS = ("tokenizer.json", "vocab.txt")
LABELS = {0: "different", 1: "paraphrase"}


@dataclass(frozen=True, kw_only=True)
class BertConfig(loop.LoopConfig):
    """What is fine-tuned, on what pairs of sentences, and how."""

    model: Annotated[Path, Meaning("Hugging Face directory to start from", free=True)]
    train: Annotated[Path, Meaning("pairs to train on, in MRPC's format", free=True)]
    validation: Annotated[Path, Meaning("pairs to judge by, in MRPC's format", free=True)]
    steps: Annotated[
        int, at_least(1), Meaning("optimizer steps; the learning rate ends with the last")
    ] = 200
    batch: Annotated[int, at_least(1), Meaning("pairs a rank and step")] = 16
    max_tokens: Annotated[int, at_least(8), Meaning("of a pair; what is longer is cut")] = 128
    learning_rate: Annotated[float, POSITIVE, Meaning("the highest, after the warm-up")] = 2e-5
    schedule: Annotated[
        Literal["linear", "cosine"], Meaning("how the learning rate falls after the warm-up")
    ] = "linear"
    warmup_steps: Annotated[
        int, at_least(0), Meaning("steps until the learning rate is reached")
    ] = 20
    weight_decay: Annotated[float, at_least(0), Meaning("AdamW's")] = 0.01
    max_gradient_norm: Annotated[
        float, POSITIVE, Meaning("gradients with a larger norm are scaled down to it")
    ] = 1.0
    evaluate_every: Annotated[
        int, at_least(0), Meaning("steps between two evaluations; 0: one, at the end", free=True)
    ] = 0
    precision: Annotated[
        Literal["float32", "bfloat16"],
        Meaning("of the matrix products; weights and optimizer state stay float32"),
    ] = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup_steps > self.steps:
            raise ValueError(
                f"warmup_steps: {self.warmup_steps} are more than all steps; use at most "
                f"{self.steps}"
            )


def rate_factor(settings: BertConfig, step: int) -> float:
    """What the learning rate of a step (from 1) is multiplied with: up in a line, then down to
    nearly 0 in a line or half a cosine.
    """
    if step <= settings.warmup_steps:
        return step / settings.warmup_steps
    done = (step - settings.warmup_steps) / (settings.steps - settings.warmup_steps + 1)
    return 1 - done if settings.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2


def load_pretrained(directory: Path, max_tokens: int) -> tuple[Any, Any]:
    """(model with a head for two classes, tokenizer) of a local directory; never asks the network.
    Raises ConfigError.

    A head that the directory does not have is drawn at random; any other weight that is missing is
    an error.
    """
    _check_directory(directory)
    os.environ.setdefault(
        "HF_HUB_OFFLINE", "1"
    )  # some versions look a tokenizer up even where local_files_only is set
    transformers = packages.needed("transformers", "trainyard_trainers.bert")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # it would only warn of what is checked below
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory, local_files_only=True)
        model, loading = transformers.AutoModelForSequenceClassification.from_pretrained(
            directory,
            local_files_only=True,
            output_loading_info=True,
            num_labels=2,
            id2label=LABELS,
            label2id={v: k for k, v in LABELS.items()},
        )
    except (
        Exception
    ) as error:  # of transformers, of safetensors, of torch: none of them says which it raises
        raise ConfigError(f"model: {directory} cannot be loaded: {error}") from error
    _check_loaded(directory, model, tokenizer, loading, max_tokens)
    return model.float(), tokenizer  # half-precision weights would lose small updates


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise ConfigError(
            f"model: {directory} is no directory; give one that save_pretrained wrote (models are "
            "not downloaded)"
        )
    for what, names in (
        ("configuration", ("config.json",)),
        ("weights", WEIGHTS),
        ("tokenizer", TOKENIZERS),
    ):
        if not any((directory / name).is_file() for name in names):
            raise ConfigError(
                f"model: {directory} has no {what}: {' or '.join(names)} is missing; "
                "save_pretrained writes it there"
            )


def _check_loaded(
    directory: Path, model: Any, tokenizer: Any, loading: Any, max_tokens: int
) -> None:
    body = f"{model.base_model_prefix}."
    missing = sorted(
        name
        for name in loading["missing_keys"]
        if name.startswith(body) and ".pooler." not in f".{name}"
    )
    if missing:
        raise ConfigError(
            f"model: the weights in {directory} lack {len(missing)} tensors that config.json asks "
            f"for, {missing[0]} first; "
            "give weights and config.json of one model"
        )
    if len(tokenizer) > model.config.vocab_size:
        raise ConfigError(
            f"model: the tokenizer in {directory} has {len(tokenizer)} tokens, but config.json's "
            f"vocab_size is {model.config.vocab_size}; "
            "give tokenizer and weights of one model"
        )
    if tokenizer.pad_token_id is None:
        raise ConfigError(
            f"model: the tokenizer in {directory} has no pad_token, which batches need; set it and "
            "save_pretrained again"
        )
    longest = getattr(model.config, "max_position_embeddings", max_tokens)
    if max_tokens > longest:
        raise ConfigError(
            f"max_tokens: {max_tokens} are more than the model's max_position_embeddings; use at "
            f"most {longest}"
        )


@dataclass(frozen=True)
class Score:
    """How well a model of a step does on the validation pairs; `loss` is the mean cross-entropy in
    nats, F1 is of the paraphrases.
    """

    step: int
    accuracy: float
    f1: float
    loss: float
    pairs: int

    @classmethod
    def of(cls, step: int, counts: Tensor) -> Score:
        """Of `counts` (5,): pairs, right ones, true positives, false ones of either kind, sum of
        losses.
        """
        pairs, right, hits, slips, loss = counts.tolist()
        return cls(
            step,
            right / pairs,
            2 * hits / (2 * hits + slips) if hits else 0.0,
            loss / pairs,
            int(pairs),
        )


class Bert:
    """Model, optimizer and data of one rank."""

    def __init__(self, settings: BertConfig) -> None:
        self.settings = settings
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.device = data_parallel.own_device()
        torch.manual_seed(settings.seed)  # for a head that is drawn: alike on all ranks
        self.model, self.tokenizer = load_pretrained(settings.model, settings.max_tokens)
        self.train = encode(
            self.tokenizer, read_pairs(settings.train, "train"), settings.max_tokens
        )
        self.validation = encode(
            self.tokenizer, read_pairs(settings.validation, "validation"), settings.max_tokens
        )
        check_batch("batch", settings.batch, self.world_size, len(self.train))
        self.stream = Stream(len(self.train), settings.seed)
        self.model.to(self.device).train()
        self.parallel = data_parallel.wrapped(
            self.model, self.device, lambda model: self._loss(model, self.train, [0])[0]
        )
        self.optimizer = torch.optim.AdamW(self._groups(), lr=settings.learning_rate)
        if self.rank == 0:
            print(
                f"{len(self.train)} pairs, {len(self.validation)} for validation; "
                f"{data_parallel.size(self.model)}",
                flush=True,
            )
        self.step = 0
        self.last: Score | None = None
        self.best: Score | None = None
        seeds.seed_rank(
            settings.seed, self.rank
        )  # from here on every rank draws dropout of its own

    def _groups(self) -> list[dict[str, Any]]:
        """Weight decay is for matrices: on biases and norms it would pull the outputs themselves to
        0.
        """
        parameters = list(self.model.parameters())
        matrices = [parameter for parameter in parameters if parameter.ndim > 1]
        others = [parameter for parameter in parameters if parameter.ndim <= 1]
        return [
            {"params": matrices, "weight_decay": self.settings.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]

    def _loss(
        self, model: nn.Module, data: Encoded, indices: list[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(mean loss, logits (pairs, 2), labels (pairs,)) of some pairs."""
        inputs, labels = data.batch(indices)
        inputs = {name: tensor.to(self.device) for name, tensor in inputs.items()}
        labels = labels.to(self.device)
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"
        ):
            logits = model(**inputs).logits
        return nn.functional.cross_entropy(logits.float(), labels), logits, labels

    def train_step(self, turn: Turn) -> StepResult:
        began = time.perf_counter()
        indices = self.stream.share(self.settings.batch, self.rank, self.world_size).tolist()
        waited = time.perf_counter() - began
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * rate_factor(self.settings, self.step)
        loss = self._loss(self.parallel, self.train, indices)[0]
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # DDP averages the gradients here
        turn.before_update()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_gradient_norm)
        self.optimizer.step()
        if self.settings.evaluate_every and self.step % self.settings.evaluate_every == 0:
            self._evaluate()
        return StepResult(loss.detach(), self.settings.batch, waited, norm)

    @torch.no_grad()
    def evaluate(self) -> Score:
        """Of every validation pair, each counted once by one rank.

        All ranks must call it; it draws no random number.
        """
        self.model.eval()
        counts = torch.zeros(5, dtype=torch.float64)
        own = list(range(self.rank, len(self.validation), self.world_size))
        for start in range(0, len(own), self.settings.batch):
            counts += self._counts(own[start : start + self.settings.batch])
        dist.all_reduce(counts)
        self.model.train()
        return Score.of(self.step, counts)

    def _counts(self, indices: list[int]) -> Tensor:
        loss, logits, labels = self._loss(self.model, self.validation, indices)
        said = logits.argmax(dim=1)
        right, hits = (said == labels).sum(), ((said == 1) & (labels == 1)).sum()
        values = [
            len(indices),
            int(right),
            int(hits),
            len(indices) - int(right),
            float(loss) * len(indices),
        ]
        return torch.tensor(values, dtype=torch.float64)

    def _evaluate(self) -> None:
        """Keep the score of this step; the best is the one with the highest F1, then the highest
        accuracy, then the first.
        """
        self.last = self.evaluate()
        if self.best is None or (self.last.f1, self.last.accuracy) > (
            self.best.f1,
            self.best.accuracy,
        ):
            self.best = self.last
        if self.rank == 0:
            print(
                f"validation after step {self.step}: accuracy {self.last.accuracy:.4f} f1 "
                f"{self.last.f1:.4f} loss {self.last.loss:.4f}",
                flush=True,
            )

    def _scores(self) -> dict[str, Any]:
        return {
            name: vars(score) if score else None
            for name, score in (("best", self.best), ("last", self.last))
        }

    def files(self) -> Files:
        files: dict[str, object] = {
            rank_file(self.rank): {**self.stream.state(), "random": seeds.random_state()}
        }
        if self.rank == 0:
            files["model.pt"] = self.model.state_dict()
            files["optimizer.pt"] = self.optimizer.state_dict()
            files["task.pt"] = {"scores": self._scores(), "train": self.train.digest()}
        return files

    def restore(self, saved: Saved) -> None:
        task = load(saved, "task.pt")
        if task["train"] != self.train.digest():
            raise ConfigError(
                f"train: {self.settings.train} or its tokenizer is not what {saved.path.name} was "
                "trained on; put it back"
            )
        self.model.load_state_dict(load(saved, "model.pt"))
        self.optimizer.load_state_dict(load(saved, "optimizer.pt"))
        self.best, self.last = (
            Score(**task["scores"][name]) if task["scores"][name] else None
            for name in ("best", "last")
        )
        self.stream.restore(load_own(saved, self.settings.seed))
        self.step = saved.step

    def final_files(self) -> Files:
        """A directory that transformers loads, with `metrics.json` beside the model."""
        if self.last is None or self.last.step != self.step:
            self._evaluate()
        if self.rank:
            return {}
        with tempfile.TemporaryDirectory() as directory:
            self.model.save_pretrained(directory)
            self.tokenizer.save_pretrained(directory)
            files: dict[str, object] = {
                path.name: path.read_bytes() for path in sorted(Path(directory).iterdir())
            }
        files["metrics.json"] = (json.dumps(self._scores(), indent=1) + "\n").encode()
        return files


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.bert` under torchrun."""
    settings = config.parse(BertConfig, argv, prog="trainyard_trainers.bert")
    return loop.main(lambda: Bert(settings), settings, backend=data_parallel.backend)
