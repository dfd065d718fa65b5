"""The output layer and the cross entropy as one operation, so that the logits of all tokens never
exist at once.

The gradient of a chunk's logits is known as soon as they are (softmax minus target), so the forward
pass computes both gradients chunk by chunk, in memory that stays in cache, and the backward pass
only scales them. The vocabulary may be split over a process group: then the softmax is taken over
all its parts (Shoeybi et al. 2019, section 3), and the gradient of `hidden` is this part's share,
to be summed.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

#: Bytes of a chunk's logits, and, on the CPU, of those of them that are worked on at once: these
#: stay in cache from one pass to the next.
_CPU_BYTES, _DEVICE_BYTES, _CACHE_BYTES = 16 << 20, 256 << 20, 2 << 20


def head_loss(
    hidden: Tensor, weight: Tensor, targets: Tensor, group: dist.ProcessGroup | None = None
) -> Tensor:
    """Sum of the cross entropy of hidden (N, H) @ weight (vocabulary of this rank, H).T against
    targets (N,), a float32 scalar.

    Targets below 0 do not count. With autocast the products are in its type.
    """
    loss: Tensor = _HeadLoss.apply(hidden, weight, targets, group)  # type: ignore[no-untyped-call]
    return loss


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, group: dist.ProcessGroup | None
    ) -> Tensor:
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        with torch.autocast(kind, enabled=False):
            return _all_chunks(ctx, hidden, weight, targets, group, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        for_hidden, for_weight = ctx.saved_tensors
        scale = gradients[0]
        return for_hidden.mul_(scale), for_weight.mul_(scale).to(ctx.weight_dtype), None, None


def _all_chunks(
    ctx: Any,
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    group: dist.ProcessGroup | None,
    dtype: torch.dtype,
) -> Tensor:
    rows = max(
        1, (_CPU_BYTES if hidden.device.type == "cpu" else _DEVICE_BYTES) // (4 * weight.shape[0])
    )
    first = 0 if group is None else dist.get_rank(group) * weight.shape[0]
    wanted = any(ctx.needs_input_grad)
    total = hidden.new_zeros((), dtype=torch.float32)
    for_hidden, for_weight = (
        torch.empty_like(hidden),
        torch.zeros_like(weight, dtype=torch.float32) if wanted else weight.new_empty(0),
    )
    cast = weight.to(dtype)
    for start in range(0, hidden.shape[0], rows):
        part = slice(start, start + rows)
        chunk = hidden[part].to(dtype)
        logits = (chunk @ cast.T).float()
        for some in _at_once(logits, group):
            of = slice(start + some.start, start + some.stop)
            total += _softmax(logits[some], targets[of] - first, targets[of] >= 0, group)
        if wanted:
            gradient = logits.to(dtype)
            for_hidden[part] = gradient @ cast
            if for_weight.dtype == dtype:
                for_weight.addmm_(gradient.T, chunk)
            else:
                for_weight += gradient.T @ chunk
    ctx.save_for_backward(for_hidden, for_weight)
    ctx.weight_dtype = weight.dtype
    return total


def _at_once(logits: Tensor, group: dist.ProcessGroup | None) -> list[slice]:
    """The rows of a chunk that the softmax is taken of together: all, where each time costs a
    collective or the launch of kernels.
    """
    whole = group is not None or logits.device.type != "cpu"
    rows = len(logits) if whole else max(1, _CACHE_BYTES // (4 * logits.shape[1]))
    return [slice(start, min(start + rows, len(logits))) for start in range(0, len(logits), rows)]


def _softmax(
    logits: Tensor, targets: Tensor, counts: Tensor, group: dist.ProcessGroup | None
) -> Tensor:
    """Turns logits into their gradient; returns the loss.

    Targets are counted from this rank's first word and may lie outside of its part.
    """
    largest = logits.amax(1)
    if group is not None:
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    logits.sub_(largest[:, None])
    here = (targets >= 0) & (targets < logits.shape[1]) & counts
    place = targets.clamp(0, logits.shape[1] - 1)[:, None]
    target = logits.gather(1, place)[:, 0] * here
    sums = torch.stack((logits.exp_().sum(1), target))
    if group is not None:
        dist.all_reduce(sums, group=group)
    loss = ((sums[0].log() - sums[1]) * counts).sum()
    logits.mul_((counts / sums[0])[:, None]).scatter_add_(1, place, -here[:, None].to(logits.dtype))
    return loss
