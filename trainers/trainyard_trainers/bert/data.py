"""Sentence pairs as the Microsoft Research Paraphrase Corpus has them, and batches of their
tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..common.config import ConfigError

COLUMNS = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")


class Pair(NamedTuple):
    """Two sentences and whether they say the same: 1, or 0."""

    label: int
    first: str
    second: str


def read_pairs(path: Path, key: str) -> list[Pair]:
    """The pairs of a tab-separated file with MRPC's header line. A quotation mark is a character
    like any other.

    Raises ConfigError that names `key`, the file and the line.
    """
    lines = _lines(path, key)
    if next(lines, (1, ""))[1].split("\t") != list(COLUMNS):
        raise ConfigError(
            f"{key}: {path}, line 1: it must be the header: {', '.join(COLUMNS)}, with a tab "
            "between each two"
        )
    pairs = [_pair(line, f"{key}: {path}, line {number}") for number, line in lines]
    if not pairs:
        raise ConfigError(f"{key}: {path} holds no pair, only the header")
    return pairs


def _lines(path: Path, key: str) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of each line.

    The corpus begins with a byte order mark and ends its lines as Windows does.
    """
    try:
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    except OSError as error:
        raise ConfigError(
            f"{key}: {path} cannot be read: {error.strerror}; give the path of a file in MRPC's "
            "format"
        ) from error
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            yield number, line.decode().rstrip("\r")
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{key}: {path}, line {number}: byte {error.start + 1} is not UTF-8"
            ) from error


def _pair(line: str, place: str) -> Pair:
    columns = line.split("\t")
    if len(columns) != len(COLUMNS):
        raise ConfigError(
            f"{place}: {len(columns)} columns instead of {len(COLUMNS)} ({', '.join(COLUMNS)})"
        )
    label, first, second = columns[0], columns[3].strip(), columns[4].strip()
    if label not in ("0", "1"):
        raise ConfigError(f"{place}: Quality is '{label}'; it must be 0 or 1")
    if not first or not second:
        raise ConfigError(f"{place}: a sentence is empty")
    return Pair(int(label), first, second)


@dataclass(frozen=True)
class Encoded:
    """Tokens of all pairs: rows of different lengths, with the segment (0 or 1) of each token where
    the model wants it.
    """

    tokens: list[list[int]]
    segments: list[list[int]] | None
    labels: Tensor
    pad: int

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, indices: Sequence[int]) -> tuple[dict[str, Tensor], Tensor]:
        """A model's inputs, each (len(indices), tokens of the longest of them), and labels
        (len(indices),).
        """
        rows = [self.tokens[index] for index in indices]
        inputs = {
            "input_ids": padded(rows, self.pad),
            "attention_mask": padded([[1] * len(row) for row in rows], 0),
        }
        if self.segments is not None:
            inputs["token_type_ids"] = padded([self.segments[index] for index in indices], 0)
        return inputs, self.labels[list(indices)]

    def digest(self) -> str:
        """Of the tokens and labels in their order: two runs with the same digest see the same
        samples.
        """
        return hashlib.sha256(repr((self.tokens, self.labels.tolist())).encode()).hexdigest()


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Rows of different lengths as one tensor (rows, longest), filled up with `value`."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def encode(tokenizer: Any, pairs: Sequence[Pair], max_tokens: int) -> Encoded:
    """Tokens of the pairs by a Hugging Face tokenizer; of a pair that is too long the longer
    sentence is cut.
    """
    found = tokenizer(
        [pair.first for pair in pairs],
        [pair.second for pair in pairs],
        truncation="longest_first",
        max_length=max_tokens,
    )
    labels = torch.tensor([pair.label for pair in pairs])
    return Encoded(found["input_ids"], found.get("token_type_ids"), labels, tokenizer.pad_token_id)
