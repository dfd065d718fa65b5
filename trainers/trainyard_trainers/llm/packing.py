"""Documents packed into sequences of one length: what a sample is, and what its tokens may see and
must predict.

Every shard is cut into windows of `sequence` tokens and the one that follows; the rest at a shard's
end is left out. A document may begin in one window and go on in the next, where it starts anew.
With packing `documents` no token sees another document and none predicts the first token of the
next one; with `plain` a window is one text, as in GPT-2's training, and attention takes the fastest
kernel.
"""

from __future__ import annotations

import bisect
import itertools
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..common.config import ConfigError
from .tokens import Shard, open_shards, window

Packing = Literal["documents", "plain"]
#: A target that does not count.
IGNORED = -100


class Batch(NamedTuple):
    """`tokens` and `targets` (B, T), int64; `positions` (B, T) within each token's document, None
    where each window is one text.
    """

    tokens: Tensor
    targets: Tensor
    positions: Tensor | None


class PackedData:
    """Windows of all shards of a directory, numbered from 0. Raises ConfigError."""

    def __init__(self, directory: Path, sequence: int, packing: Packing = "documents") -> None:
        self.shards: list[Shard] = open_shards(directory)
        self.sequence, self.packing = sequence, packing
        self.vocab_size = self.shards[0].header.vocab_size
        windows = [max(0, shard.header.tokens - 1) // sequence for shard in self.shards]
        self._ends = list(itertools.accumulate(windows))
        if not len(self):
            most = max(shard.header.tokens for shard in self.shards) - 1
            raise ConfigError(
                f"sequence: {sequence} is longer than every shard of {directory}; use at most "
                f"{most}, or pack more text"
            )

    def __len__(self) -> int:
        return self._ends[-1]

    def identity(self) -> dict[str, object]:
        """What must be the same for a position in the data to mean the same; plain values."""
        return {
            "sequence": self.sequence,
            "packing": self.packing,
            "shards": [
                f"{shard.path.name} {shard.header.tokens} {shard.header.crc32:08x}"
                for shard in self.shards
            ],
        }

    def _place(self, number: int) -> tuple[Shard, int]:
        """A window's shard and its first token there."""
        index = bisect.bisect_right(self._ends, number)
        before = self._ends[index - 1] if index else 0
        return self.shards[index], (number - before) * self.sequence

    def _starts(self, shard: Shard, start: int) -> Tensor:
        """Where, within the window at `start`, documents begin: 1 to sequence."""
        if self.packing == "plain":
            return torch.empty(0, dtype=torch.int64)
        first, last = torch.searchsorted(
            shard.starts, torch.tensor([start + 1, start + self.sequence + 1])
        ).tolist()
        return shard.starts[first:last] - start

    def targets(self, number: int) -> int:
        """How many tokens of a window count in the loss."""
        return self.sequence - len(self._starts(*self._place(number)))

    def batch(self, numbers: Tensor) -> Batch:
        """The windows of these numbers, shape (B,)."""
        tokens, targets, positions = zip(
            *(self._sample(int(number)) for number in numbers), strict=True
        )
        several = any(row is not None for row in positions)
        whole = torch.arange(self.sequence)
        rows = [whole if row is None else row for row in positions]
        return Batch(
            torch.stack(tokens), torch.stack(targets), torch.stack(rows) if several else None
        )

    def _sample(self, number: int) -> tuple[Tensor, Tensor, Tensor | None]:
        shard, start = self._place(number)
        text = window(shard, start, self.sequence + 1)
        starts = self._starts(shard, start)
        targets = text[1:].clone()
        targets[starts - 1] = IGNORED
        inside = starts[starts < self.sequence]
        if not len(inside):
            return text[:-1], targets, None
        bounds = torch.cat(
            (torch.zeros(1, dtype=torch.int64), inside, torch.tensor([self.sequence]))
        )
        begins = torch.repeat_interleave(bounds[:-1], bounds.diff())
        return text[:-1], targets, torch.arange(self.sequence) - begins
