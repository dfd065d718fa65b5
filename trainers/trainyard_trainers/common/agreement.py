"""Small collectives on the CPU by which all ranks come to know the same, beside the model's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

#: Slots of the vote that goes around with every step: each is summed over the ranks.
LOSS, STOP, SAVE, FAILED, FENCED = range(5)
SLOTS = 5


class Agreement(NamedTuple):
    """The sum of all ranks' votes after a step, read alike on each."""

    loss: float
    stop: bool
    save: bool
    failed: float
    fenced: float

    @classmethod
    def of(cls, summed: Tensor | Sequence[float], world_size: int) -> Agreement:
        values: Sequence[float] = summed.tolist() if isinstance(summed, Tensor) else summed
        return cls(
            values[LOSS] / world_size,
            values[STOP] > 0,
            values[SAVE] > 0,
            values[FAILED],
            values[FENCED],
        )


def exchange(value: Any, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Every rank's JSON value, in the order of ranks. torch's own object collectives need numpy,
    which a node may not have.
    """
    text = bytearray(json.dumps(value).encode())
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, torch.tensor([len(text)], dtype=torch.int64), group=group)
    longest = int(max(int(size) for size in sizes))
    parts = [torch.zeros(longest, dtype=torch.uint8) for _ in sizes]
    dist.all_gather(parts, torch.frombuffer(text.ljust(longest), dtype=torch.uint8), group=group)
    return [json.loads(bytes(part.tolist())) for part in parts]
