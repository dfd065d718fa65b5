"""The mean of the gradients of ranks that share a node, through its memory: over sockets the same bytes are copied several times more.

Each rank lays its gradients into a row of its own, takes the mean of one slice of all rows, and writes it to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from .. import node_memory

#: Numbers that are added up at once: they stay in a core's cache.
_AT_ONCE = 1 << 16


def connect(tensors: Sequence[Tensor], group: dist.ProcessGroup | None) -> SharedMean | None:
    """For gradients of these float32 tensors; None where the ranks of `group` cannot share memory. Collective over all ranks, not `group` alone."""
    rows = node_memory.rows(sum(tensor.numel() for tensor in tensors), group)
    return None if rows is None else SharedMean(tensors, rows, group)


class SharedMean:
    """In rows (ranks, numbers of all tensors) that the ranks share."""

    def __init__(self, tensors: Sequence[Tensor], rows: Tensor, group: dist.ProcessGroup | None) -> None:
        self._group = group
        parts = torch.split(rows[dist.get_rank(group)], [tensor.numel() for tensor in tensors])
        self._own = [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]
        columns = torch.chunk(rows, dist.get_world_size(group), dim=1)[dist.get_rank(group) :]
        self._slice = torch.split(columns[0], _AT_ONCE, dim=1) if columns else ()

    def average(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The mean over the ranks, the same bits on each; its memory is this rank's until the next call."""
        torch._foreach_copy_(self._own, list(gradients))
        dist.barrier(self._group)
        for part in self._slice:
            part.copy_(part.mean(0))
        dist.barrier(self._group)
        return self._own
