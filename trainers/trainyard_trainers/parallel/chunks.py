"""ZeRO-1 (Rajbhandari et al. 2020): each data-parallel rank updates one chunk of every weight, and
holds the optimizer's state for that alone.

A chunk is cut along dimension 0 as neuronx-distributed does it: ceil(rows / ranks) rows, the last
ones short or empty. Gradients and updated weights travel in buckets: row r of a bucket's buffer is
what rank r owns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

#: Of one tensor, under their names since torch 2.13 and before.
reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

#: Bytes of float32 in a bucket.
_BUCKET_BYTES = 64 << 20


def chunk_rows(rows: int, size: int) -> int:
    """Rows of a chunk when `rows` are split over `size` ranks."""
    return -(-rows // size)


def chunk(tensor: Tensor, rank: int, size: int) -> Tensor:
    """The rows that `rank` owns, a view; fewer than chunk_rows, or none, at the end."""
    rows = chunk_rows(tensor.shape[0], size)
    return tensor[min(rank * rows, tensor.shape[0]) : (rank + 1) * rows]


def padded(piece: Tensor, rows: int) -> Tensor:
    """A short chunk with zeros behind it."""
    if piece.shape[0] == rows:
        return piece
    return torch.cat((piece, piece.new_zeros(rows - piece.shape[0], *piece.shape[1:])))


def buckets(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Indices of the tensors in runs of about _BUCKET_BYTES."""
    found: list[list[int]] = [[]]
    filled = 0
    for index, tensor in enumerate(tensors):
        if found[-1] and filled + 4 * tensor.numel() > _BUCKET_BYTES:
            found.append([])
            filled = 0
        found[-1].append(index)
        filled += 4 * tensor.numel()
    return found


class Chunks:
    """The tensors of a model, of which this rank owns a chunk each (`owned`, views into them)."""

    def __init__(self, tensors: Sequence[Tensor], group: dist.ProcessGroup | None) -> None:
        self._tensors, self._group = list(tensors), group
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        self._buckets = buckets(self._tensors)
        self.owned = [chunk(tensor, self._rank, self._size) for tensor in self._tensors]

    def average(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The chunks that this rank owns of the mean gradient."""
        mean: list[Tensor] = []
        under_way = []
        for bucket in self._buckets:
            buffer = self._buffer(bucket)
            for index, columns in zip(bucket, self._columns(bucket), strict=True):
                self._lay_out(gradients[index], buffer[:, columns])
            own = buffer.new_empty(buffer.shape[1])
            under_way.append(
                (
                    bucket,
                    own,
                    buffer,
                    reduce_scatter(own, buffer.view(-1), group=self._group, async_op=True),
                )
            )
        for bucket, own, _buffer, work in under_way:
            work.wait()
            own.div_(self._size)
            mean += [
                own[columns][: self.owned[index].numel()].view_as(self.owned[index])
                for index, columns in zip(bucket, self._columns(bucket), strict=True)
            ]
        return mean

    def share(self) -> None:
        """Send every rank's updated chunks to all others."""
        for bucket in self._buckets:
            buffer = self._buffer(bucket)
            own = buffer[self._rank].clone()
            for index, columns in zip(bucket, self._columns(bucket), strict=True):
                own[columns][: self.owned[index].numel()].copy_(self.owned[index].flatten())
            all_gather(buffer.view(-1), own, group=self._group)
            for index, columns in zip(bucket, self._columns(bucket), strict=True):
                self._take_back(buffer[:, columns], self._tensors[index])

    def _columns(self, bucket: list[int]) -> list[slice]:
        """Where the chunks of each tensor lie in a row of the buffer."""
        places: list[slice] = []
        start = 0
        for index in bucket:
            tensor = self._tensors[index]
            width = chunk_rows(tensor.shape[0], self._size) * tensor[0].numel()
            places.append(slice(start, start + width))
            start += width
        return places

    def _buffer(self, bucket: list[int]) -> Tensor:
        return self._tensors[bucket[0]].new_zeros(self._size, self._columns(bucket)[-1].stop)

    def _lay_out(self, tensor: Tensor, target: Tensor) -> None:
        for rank in range(self._size):
            piece = chunk(tensor, rank, self._size)
            target[rank, : piece.numel()].copy_(piece.flatten())

    def _take_back(self, source: Tensor, tensor: Tensor) -> None:
        for rank in range(self._size):
            piece = chunk(tensor, rank, self._size)
            piece.copy_(source[rank, : piece.numel()].view_as(piece))


def average_whole(gradients: Sequence[Tensor], group: dist.ProcessGroup | None) -> list[Tensor]:
    """The mean gradients over the group, for replicas that no DistributedDataParallel wraps; views
    of flat buffers.
    """
    mean: list[Tensor] = []
    under_way = []
    for bucket in buckets(gradients):
        flat = torch.cat([gradients[index].flatten() for index in bucket])
        under_way.append((bucket, flat, dist.all_reduce(flat, group=group, async_op=True)))
    for bucket, flat, work in under_way:
        work.wait()
        flat.div_(dist.get_world_size(group))
        parts = torch.split(flat, [gradients[index].numel() for index in bucket])
        mean += [part.view_as(gradients[index]) for part, index in zip(parts, bucket, strict=True)]
    return mean
