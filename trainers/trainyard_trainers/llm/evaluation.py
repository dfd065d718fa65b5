"""The loss on held-out data: what tells learning from learning by heart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
from torch import nn

from ..common.bounds import NOT_NEGATIVE, Bounded
from ..common.config import ConfigError
from ..common.meaning import Meaning
from ..parallel.backend import Backend
from .packing import IGNORED, Batch, PackedData, Packing


@dataclass(frozen=True)
class ValidationConfig(Bounded):
    """On what, and how often, a model is judged while it trains."""

    data: Annotated[
        str, Meaning("directory of token shards that training does not see; none: no validation")
    ] = ""
    every: Annotated[
        int,
        NOT_NEGATIVE,
        Meaning("steps between two validations; 0: one, after the last", free=True),
    ] = 0
    sequences: Annotated[
        int, NOT_NEGATIVE, Meaning("so many of its samples, spread evenly over them; 0: all")
    ] = 0

    def due(self, step: int, steps: int) -> bool:
        """Whether there is a validation after `step` of `steps`."""
        if not self.data:
            return False
        return step == steps or bool(self.every and step % self.every == 0)


class Validation:
    """Held-out samples, of which each data-parallel rank looks at its share."""

    def __init__(
        self, config: ValidationConfig, sequence: int, packing: Packing, vocab_size: int
    ) -> None:
        self.data = PackedData(Path(config.data), sequence, packing, key="validation.data")
        if self.data.vocab_size != vocab_size:
            raise ConfigError(
                f"validation.data: {config.data} has a vocabulary of {self.data.vocab_size}, the "
                f"model of {vocab_size}; pack it with the same tokenizer as data"
            )
        count = min(config.sequences or len(self.data), len(self.data))
        self.numbers = [number * len(self.data) // count for number in range(count)]

    @torch.no_grad()
    def loss(
        self, model: nn.Module, backend: Backend, size: int, moved: Callable[[Batch], Batch]
    ) -> float:
        """The mean over all tokens that count, the same on all ranks. Collective.

        `size`: samples that are computed at once.
        """
        total = torch.zeros(2, dtype=torch.float64)
        for batch in self._batches(backend.ranks.dp, backend.ranks.dp_size, size):
            there = moved(batch)
            with backend.forwarding(last=True):
                total[0] += float(model(there.tokens, there.targets, there.positions))
            total[1] += int((batch.targets != IGNORED).sum())
        if backend.ranks.tp:  # tensor-parallel neighbours have computed the same
            total.zero_()
        dist.all_reduce(total)
        return float(total[0] / total[1].clamp(min=1))

    def _batches(self, dp: int, dp_size: int, size: int) -> Iterator[Batch]:
        """As many, and as large ones, on every rank: a model that is spread over the ranks is
        gathered by all of them. What fills the last one up does not count.
        """
        own = self.numbers[dp::dp_size]
        most = -(-len(self.numbers) // dp_size)
        for start in range(0, most, size):
            part = own[start : start + size]
            filled = part + self.numbers[:1] * (size - len(part))
            batch = self.data.batch(torch.tensor(filled))
            batch.targets[len(part) :] = IGNORED
            yield batch
