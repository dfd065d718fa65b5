"""Which weights AdamW's decay pulls towards zero: what scales or shifts a whole feature is better
left where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Literal, TypeVar

Kind = Literal["norms", "biases", "embeddings"]
_T = TypeVar("_T")


def decays(name: str, without: Collection[Kind]) -> bool:
    """Whether the weight `name` (Hugging Face's Llama names) decays."""
    parts = name.split(".")
    kinds: dict[Kind, bool] = {
        "biases": parts[-1] == "bias",
        "norms": any("norm" in part for part in parts),
        "embeddings": "embed_tokens" in parts,
    }
    return not any(kinds[kind] for kind in without)


def runs(items: Iterable[tuple[_T, bool]]) -> list[tuple[list[_T], bool]]:
    """Neighbours that decay alike, together and in their order."""
    return [
        ([item for item, _ in alike], decay)
        for decay, alike in groupby(items, key=lambda pair: pair[1])
    ]
