"""Parallel text, its tokens, and batches of about the same number of tokens each."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..common.config import ConfigError
from .vocabulary import BEGIN, PAD, Vocabulary

#: Pairs that are encoded at once: enough to keep all cores busy, few enough to be small in memory.
_CHUNK = 10_000


@dataclass
class ParallelText:
    """Pairs of lines that translate each other; `key` is the setting that named them.

    `place` is a tab-separated file (.tsv: source, target), or what two files have in common:
    corpus/train for corpus/train.en and corpus/train.de. `empty` counts the pairs that were left
    out by the last reading because a side was empty.
    """

    key: str
    place: str
    source: str
    target: str
    empty: int = 0

    def __post_init__(self) -> None:
        for path in self.files():
            if not path.is_file():
                raise ConfigError(
                    f"{self.key}: there is no file {path}; give a file that ends in .tsv, or the "
                    "common beginning of two files that end in "
                    f".{self.source} and .{self.target}"
                )

    def files(self) -> list[Path]:
        """The one file or the two."""
        if self.place.endswith(".tsv"):
            return [Path(self.place)]
        return [Path(f"{self.place}.{language}") for language in (self.source, self.target)]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """(source, target), neither of them empty. Raises ConfigError that names file and line."""
        self.empty = found = 0
        for source, target in self._columns() if self.place.endswith(".tsv") else self._aligned():
            if source and target:
                found += 1
                yield source, target
            else:
                self.empty += 1
        if not found:
            raise ConfigError(
                f"{self.key}: {self.place} holds no pair of lines with text on both sides"
            )

    def _columns(self) -> Iterator[tuple[str, str]]:
        path = self.files()[0]
        for number, line in enumerate(_lines(self.key, path), 1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise ConfigError(
                    f"{self.key}: {path}, line {number}: {len(columns)} columns instead of 2: "
                    "source, a tab, target"
                )
            yield columns[0].strip(), columns[1].strip()

    def _aligned(self) -> Iterator[tuple[str, str]]:
        paths = self.files()
        sources, targets = (_lines(self.key, path) for path in paths)
        for number, (source, target) in enumerate(itertools.zip_longest(sources, targets)):
            if source is None or target is None:
                short, long = (paths[0], paths[1]) if source is None else (paths[1], paths[0])
                more = number + 1 + sum(1 for _ in (targets if source is None else sources))
                raise ConfigError(
                    f"{self.key}: {short} has {number} lines, but {long} has {more}; each line of "
                    "one must translate that line of the other"
                )
            yield source.strip(), target.strip()


def _lines(key: str, path: Path) -> Iterator[str]:
    """Lines end at a line feed and nowhere else: some corpora have other separators within their
    lines.
    """
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield line.decode().rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ConfigError(
                    f"{key}: {path}, line {number}: byte {error.start + 1} is not UTF-8"
                ) from error


class Rows:
    """Rows of tokens of different lengths, one behind the other in memory: four bytes a token,
    eight a row.
    """

    def __init__(self, chunks: Sequence[Tensor], lengths: Sequence[int]) -> None:
        self.tokens = torch.cat(list(chunks)) if chunks else torch.empty(0, dtype=torch.int32)
        self.lengths = torch.tensor(lengths, dtype=torch.int64)
        self._ends = self.lengths.cumsum(0)

    def padded(self, indices: Tensor) -> Tensor:
        """These rows, shape (len(indices), longest of them), int64, filled up with PAD."""
        lengths, ends = self.lengths[indices], self._ends[indices]
        within = torch.arange(int(lengths.max()))
        places = (ends - lengths)[:, None] + within
        there = within < lengths[:, None]
        return torch.where(there, self.tokens[places.clamp(max=len(self.tokens) - 1)].long(), PAD)


@dataclass
class Corpus:
    """The tokens of a parallel text, each row with END behind it.

    `too_long`: pairs left out; `digest`: of text and vocabulary.
    """

    source: Rows
    target: Rows
    too_long: int
    digest: str

    def __len__(self) -> int:
        return len(self.source.lengths)

    @classmethod
    def of(cls, text: ParallelText, vocabulary: Vocabulary, max_tokens: int) -> Corpus:
        """Pairs with more than `max_tokens` on a side are left out and counted."""
        seen = hashlib.sha256(vocabulary.document.encode())
        chunks: tuple[list[Tensor], list[Tensor]] = ([], [])
        lengths: tuple[list[int], list[int]] = ([], [])
        too_long, pairs = 0, text.pairs()
        while chunk := list(itertools.islice(pairs, _CHUNK)):
            seen.update("\n".join(itertools.chain.from_iterable(chunk)).encode())
            sides = [vocabulary.encode(lines) for lines in zip(*chunk, strict=True)]
            kept = [pair for pair in zip(*sides, strict=True) if max(map(len, pair)) <= max_tokens]
            too_long += len(chunk) - len(kept)
            for side in range(2):
                lengths[side].extend(len(pair[side]) for pair in kept)
                chunks[side].append(
                    torch.tensor(
                        [token for pair in kept for token in pair[side]], dtype=torch.int32
                    )
                )
        if not lengths[0]:
            raise ConfigError(
                f"max_tokens: every pair of {text.place} has more than {max_tokens} tokens on a "
                "side; use more"
            )
        return cls(
            Rows(chunks[0], lengths[0]), Rows(chunks[1], lengths[1]), too_long, seen.hexdigest()
        )

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(source (pairs, S), what the decoder reads (pairs, T), what it must say (pairs, T)),
        padded with PAD.
        """
        target = self.target.padded(indices)
        begin = torch.full((len(indices), 1), BEGIN)
        return self.source.padded(indices), torch.cat([begin, target[:, :-1]], dim=1), target


class Batches:
    """All pairs of a corpus, sorted into batches of pairs of like lengths, each at most `limit`
    tokens with padding on either side.

    They follow from the corpus, the limit and the seed alone, never from the number of ranks: so a
    position in their stream means the same to every job. `target_tokens` (batches,) counts what
    each must say, without padding.
    """

    def __init__(self, corpus: Corpus, limit: int, seed: int) -> None:
        source, target = corpus.source.lengths, corpus.target.lengths
        longest = torch.maximum(source, target)
        # Shuffled first: which of many pairs of one length share a batch is chance.
        order = torch.randperm(len(corpus), generator=torch.Generator().manual_seed(seed))
        order = order[source[order].argsort(stable=True)]
        self._order = order[longest[order].argsort(stable=True)]
        self._starts = _starts(longest[self._order].tolist(), limit)
        sums = torch.cat([torch.zeros(1, dtype=torch.int64), target[self._order].cumsum(0)])
        ends = torch.tensor([*self._starts[1:], len(corpus)])
        self.target_tokens = sums[ends] - sums[torch.tensor(self._starts)]

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> Tensor:
        """Indices of the pairs of one batch, shape (pairs,)."""
        end = self._starts[index + 1] if index + 1 < len(self) else len(self._order)
        return self._order[self._starts[index] : end]


def _starts(lengths: Sequence[int], limit: int) -> list[int]:
    """Where batches begin in rows sorted by length: the last row of a batch is its longest."""
    starts = [0]
    for place, length in enumerate(lengths):
        if (place + 1 - starts[-1]) * length > limit:
            starts.append(place)
    return starts
