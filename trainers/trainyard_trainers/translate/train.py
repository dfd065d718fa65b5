"""Trains a transformer to translate, from parallel text to a model with its BLEU.

    torchrun --nproc-per-node 2 -m trainyard_trainers.translate \\
        --train corpus/train --validation corpus/dev

The unit of the data is a batch of about `tokens_per_batch` tokens: each rank takes one a step.
Resume is exact, dropout included.
"""

from __future__ import annotations

import functools
import json
import math
import sys
import time
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from trainyard_job.checkpoints.checkpoint import Saved

from .. import loop
from ..checkpoints.checkpointer import Files, load, load_own, rank_file
from ..common import config, packages, seeds
from ..common.agreement import exchange
from ..common.bounds import POSITIVE, Bound, at_least
from ..common.config import ConfigError
from ..common.meaning import Meaning
from ..loop import StepResult, Turn
from ..loop.data import Stream
from ..parallel import data_parallel
from .data import Batches, Corpus, ParallelText
from .model import ModelConfig, Transformer
from .translate import SearchConfig, model_files, translate
from .vocabulary import PAD, Vocabulary


@dataclass(frozen=True, kw_only=True)
class TrainConfig(loop.LoopConfig):
    """What is translated, by what model, and how it is trained."""

    train: Annotated[
        str,
        Meaning("a tab-separated file, or what two files' names have in common", free=True),
    ]
    validation: Annotated[
        str | None, Meaning("the same, to judge by; without it, no BLEU", free=True)
    ] = None
    source: Annotated[str, Meaning("the language that is translated from")] = "en"
    target: Annotated[str, Meaning("the language that is translated into")] = "de"
    vocabulary_size: Annotated[int, Meaning("parts of words that are learned, at most")] = 16_000
    tokens_per_batch: Annotated[
        int, Meaning("of a rank and step, padding included, on either side")
    ] = 4096
    max_tokens: Annotated[
        int, at_least(2), Meaning("pairs with more of them on a side are left out")
    ] = 256
    learning_rate: Annotated[float, POSITIVE, Meaning("the highest, at the end of the warm-up")] = (
        7e-4
    )
    warmup_steps: Annotated[
        int, at_least(1), Meaning("steps until the learning rate is reached")
    ] = 4000
    label_smoothing: Annotated[
        float,
        Bound("is no share of probability; use 0 or more and less than 1", ge=0, lt=1),
        Meaning("share of the probability that is spread over all words"),
    ] = 0.1
    weight_decay: Annotated[float, at_least(0), Meaning("AdamW's")] = 0.0
    max_gradient_norm: Annotated[
        float, POSITIVE, Meaning("gradients with a larger norm are scaled down to it")
    ] = 1.0
    precision: Annotated[
        Literal["float32", "bfloat16"], Meaning("of the matrix products; weights stay float32")
    ] = "float32"
    model: ModelConfig = field(default_factory=ModelConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens_per_batch < self.max_tokens:
            raise ValueError(
                f"tokens_per_batch: {self.tokens_per_batch} are too few for a pair of max_tokens "
                f"{self.max_tokens}; "
                f"use {self.max_tokens} or more, or lower max_tokens"
            )


def learning_rate(settings: TrainConfig, step: int) -> float:
    """Of a step, from 1: up in a line, then down with the inverse square root of the step (Vaswani
    et al., section 5.3).
    """
    return settings.learning_rate * min(
        step / settings.warmup_steps, math.sqrt(settings.warmup_steps / step)
    )


class Training:
    """Model, optimizer and batches of one rank."""

    def __init__(self, settings: TrainConfig, text: ParallelText, vocabulary: Vocabulary) -> None:
        self.settings, self.vocabulary, self.text = settings, vocabulary, text
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.device = data_parallel.own_device()
        self.corpus = Corpus.of(text, vocabulary, settings.max_tokens)
        self.batches = Batches(self.corpus, settings.tokens_per_batch, settings.seed)
        self._check_batches()
        self.stream = Stream(len(self.batches), settings.seed)
        torch.manual_seed(settings.seed)
        self.model = Transformer(settings.model, len(vocabulary)).to(self.device)
        self.parallel = data_parallel.wrapped(
            self.model, self.device, lambda model: self._loss(model, 0)
        )
        if self.rank == 0:
            print(data_parallel.size(self.model), flush=True)
        rates: dict[str, Any] = {
            "lr": settings.learning_rate,
            "weight_decay": settings.weight_decay,
        }
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), betas=(0.9, 0.98), eps=1e-9, **rates
        )
        self.step = 0
        seeds.seed_rank(
            settings.seed, self.rank
        )  # from here on every rank draws dropout of its own

    def _check_batches(self) -> None:
        """Say what was read; every rank must find a batch of its own in a pass."""
        if self.rank == 0:
            print(
                f"{len(self.corpus)} pairs in {len(self.batches)} batches, {len(self.vocabulary)} "
                "subwords; left out: "
                f"{self.text.empty} with an empty side, {self.corpus.too_long} with more than "
                f"{self.settings.max_tokens} tokens",
                flush=True,
            )
        if len(self.batches) < self.world_size:
            raise ConfigError(
                f"tokens_per_batch: {self.settings.tokens_per_batch} make {len(self.batches)} "
                f"batches of {self.text.place}, but each of "
                f"{self.world_size} ranks takes one a step; use fewer tokens a batch, or at most "
                f"{len(self.batches)} ranks"
            )

    def _loss(self, model: nn.Module, batch: int) -> Tensor:
        """The sum over the tokens of a batch of the cross-entropy, in nats, with smoothed
        labels.
        """
        source, read, wanted = (
            part.to(self.device) for part in self.corpus.batch(self.batches[batch])
        )
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"
        ):
            logits = model(source, read)
        smoothing = self.settings.label_smoothing
        return functional.cross_entropy(
            logits.float().flatten(0, 1),
            wanted.flatten(),
            ignore_index=PAD,
            reduction="sum",
            label_smoothing=smoothing,
        )

    def train_step(self, turn: Turn) -> StepResult:
        began = time.perf_counter()
        taken = self.stream.take(self.world_size)
        tokens = int(self.batches.target_tokens[taken].sum())
        waited = time.perf_counter() - began
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings, self.step)
        # DDP averages over ranks, whose batches differ in tokens; this makes it the mean over the
        # tokens of all ranks.
        loss = self._loss(self.parallel, int(taken[self.rank])) * (self.world_size / tokens)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        turn.before_update()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_gradient_norm)
        self.optimizer.step()
        return StepResult(loss.detach(), round(tokens / self.world_size), waited, norm)

    def _order(self) -> dict[str, Any]:
        """What the position in the data rests on; another order would repeat and skip pairs in
        silence.
        """
        return {
            "text": self.corpus.digest,
            "batches": len(self.batches),
            "seed": self.settings.seed,
        }

    def files(self) -> Files:
        files: dict[str, object] = {
            rank_file(self.rank): {"position": self.stream.position, "random": seeds.random_state()}
        }
        if self.rank == 0:
            files["model.pt"] = self.model.state_dict()
            files["optimizer.pt"] = self.optimizer.state_dict()
            files["vocabulary.json"] = self.vocabulary.document.encode()
            files["order.json"] = json.dumps(self._order()).encode()
        return files

    def restore(self, saved: Saved) -> None:
        order = json.loads((saved.path / "order.json").read_bytes())
        changed = [name for name, value in self._order().items() if order[name] != value]
        if changed:
            raise ConfigError(
                f"train: {self.text.place} gives other batches than {saved.path.name} was trained "
                f"on (different: {', '.join(changed)}); put the "
                "text, seed, max_tokens and tokens_per_batch back, or begin a new run"
            )
        self.model.load_state_dict(load(saved, "model.pt"))
        self.optimizer.load_state_dict(load(saved, "optimizer.pt"))
        own = load_own(saved, self.settings.seed)
        self.stream.position, self.step = own["position"], saved.step


class Translate:
    """The trainer as the loop sees it.

    A fresh run learns its vocabulary before the first step; a resumed one takes the checkpoint's.
    """

    def __init__(self, settings: TrainConfig) -> None:
        self.settings = settings
        self.text = ParallelText("train", settings.train, settings.source, settings.target)
        self.validation: list[tuple[str, str]] = []
        if settings.validation is not None:
            packages.needed("sacrebleu", "validation: BLEU")  # now, and not after days of training
            self.validation = list(
                ParallelText(
                    "validation", settings.validation, settings.source, settings.target
                ).pairs()
            )

    @functools.cached_property
    def training(self) -> Training:
        document, failure = "", ""
        if dist.get_rank() == 0:
            both = (line for pair in self.text.pairs() for line in pair)
            try:
                document = Vocabulary.train(both, self.settings.vocabulary_size).document
            except ConfigError as error:
                failure = str(error)
        document, failure = exchange([document, failure])[0]
        if failure:
            raise ConfigError(failure)
        return Training(self.settings, self.text, Vocabulary(document))

    def train_step(self, turn: Turn) -> StepResult:
        return self.training.train_step(turn)

    def files(self) -> Files:
        return self.training.files()

    def restore(self, saved: Saved) -> None:
        vocabulary = Vocabulary((saved.path / "vocabulary.json").read_text(encoding="utf-8"))
        self.training = Training(self.settings, self.text, vocabulary)
        self.training.restore(saved)

    def final_files(self) -> Files:
        """The model with all that translates, and with a validation text its translations and their
        BLEU in `metrics.json`.
        """
        said = self._translations()
        if self.training.rank:
            return {}
        languages = {"source": self.settings.source, "target": self.settings.target}
        files = model_files(self.training.model, self.training.vocabulary, **languages)
        if self.validation:
            files["metrics.json"] = (json.dumps(self._score(said), indent=1) + "\n").encode()
            files[f"validation.{self.settings.target}"] = "".join(
                f"{line}\n" for line in said
            ).encode()
        return files

    def _translations(self) -> list[str]:
        """Of the validation text, on every rank; each line is translated by one rank."""
        rank, world_size = dist.get_rank(), dist.get_world_size()
        lines = [source for source, _ in self.validation[rank::world_size]]
        parts = exchange(
            translate(self.training.model, self.training.vocabulary, lines, self.settings.search)
        )
        return [
            parts[place % world_size][place // world_size] for place in range(len(self.validation))
        ]

    def _score(self, said: list[str]) -> dict[str, Any]:
        bleu = packages.needed("sacrebleu", "validation: BLEU").metrics.BLEU()
        score = float(bleu.corpus_score(said, [[target for _, target in self.validation]]).score)
        print(
            f"validation after step {self.training.step}: BLEU {score:.2f} {bleu.get_signature()}",
            flush=True,
        )
        return {
            "step": self.training.step,
            "bleu": score,
            "signature": str(bleu.get_signature()),
            "pairs": len(self.validation),
        }


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.translate` under torchrun."""
    settings = config.parse(TrainConfig, argv, prog="trainyard_trainers.translate")
    return loop.main(lambda: Translate(settings), settings, backend=data_parallel.backend)


if __name__ == "__main__":
    sys.exit(main())
