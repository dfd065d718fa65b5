"""Documents packed into sequences of one length: what a sample is, and what its tokens may see and
must predict.

Every shard is cut into windows of `sequence` tokens and the one that follows; the rest at a shard's
end is left out. A document may begin in one window and go on in the next, where it starts anew.
With packing `documents` no token sees another document and none predicts the first token of the
next one; with `plain` a window is one text, as in GPT-2's training, and attention takes the fastest
kernel. With `whole` no document is divided: a window has as many as fit, in their order, and the
rest of it is empty; only what is longer than a window is cut. That is for conversations, whose
answers mean nothing without their questions.
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

Packing = Literal["documents", "plain", "whole"]
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
    """Windows of all shards of a directory, numbered from 0. Raises ConfigError, which names `key`
    where no shards are.
    """

    def __init__(
        self,
        directory: Path,
        sequence: int,
        packing: Packing = "documents",
        *,
        key: str = "data",
    ) -> None:
        self.shards: list[Shard] = open_shards(directory, key)
        self.sequence, self.packing = sequence, packing
        self.vocab_size = self.shards[0].header.vocab_size
        self._filled = [self._fill(shard) for shard in self.shards] if packing == "whole" else []
        windows = [
            len(self._filled[index]) - 1
            if self._filled
            else max(0, shard.header.tokens - 1) // sequence
            for index, shard in enumerate(self.shards)
        ]
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

    def _lengths(self, shard: Shard) -> list[int]:
        """Tokens of each document."""
        ends = torch.cat((shard.starts[1:], torch.tensor([shard.header.tokens])))
        lengths: list[int] = (ends - shard.starts).tolist()
        return lengths

    def _fill(self, shard: Shard) -> list[int]:
        """The first document of each window, and behind the last window how many there are."""
        bounds, filled = [0], 0
        for number, length in enumerate(self._lengths(shard)):
            if filled and filled + length > self.sequence:
                bounds.append(number)
                filled = 0
            filled += length
        return [*bounds, shard.header.documents]

    @property
    def cut(self) -> int:
        """Documents that are longer than a window, where none may be divided: their end is lost."""
        if self.packing != "whole":
            return 0
        lengths = (length for shard in self.shards for length in self._lengths(shard))
        return sum(length > self.sequence for length in lengths)

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
        shard, start = self._place(number)
        if self.packing == "whole" or shard.counts is not None:
            return int((self._sample(number)[1] != IGNORED).sum())
        return self.sequence - len(self._starts(shard, start))

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
        if self.packing == "whole":
            return self._of_whole_documents(shard, start // self.sequence)
        text = window(shard, start, self.sequence + 1)
        starts = self._starts(shard, start)
        targets = text[1:].clone()
        targets[starts - 1] = IGNORED
        if shard.counts is not None:
            targets[shard.counts[start + 1 : start + self.sequence + 1] == 0] = IGNORED
        inside = starts[starts < self.sequence]
        if not len(inside):
            return text[:-1], targets, None
        bounds = torch.cat(
            (torch.zeros(1, dtype=torch.int64), inside, torch.tensor([self.sequence]))
        )
        begins = torch.repeat_interleave(bounds[:-1], bounds.diff())
        return text[:-1], targets, torch.arange(self.sequence) - begins

    def _of_whole_documents(self, shard: Shard, index: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """The `index`-th window of a shard; what is empty in it is text that nothing sees."""
        first, last = self._filled[self.shards.index(shard)][index : index + 2]
        starts = shard.starts[first:last].clone()
        end = int(shard.starts[last]) if last < shard.header.documents else shard.header.tokens
        begin = int(starts[0])
        count = min(end - begin, self.sequence)
        text = torch.zeros(self.sequence, dtype=torch.int64)
        text[:count] = window(shard, begin, count)
        targets = torch.full((self.sequence,), IGNORED, dtype=torch.int64)
        targets[: count - 1] = text[1:count]
        starts -= begin
        targets[starts[1:] - 1] = IGNORED
        if shard.counts is not None:
            targets[: count - 1][shard.counts[begin + 1 : begin + count] == 0] = IGNORED
        if len(starts) == 1 and count == self.sequence:
            return text, targets, None
        empty = torch.arange(count, self.sequence)
        bounds = torch.cat((starts, empty, torch.tensor([self.sequence])))
        begins = torch.repeat_interleave(bounds[:-1], bounds.diff())
        return text, targets, torch.arange(self.sequence) - begins
