"""The layers of one process: tensor parallelism splits them later, and tools that only compute
logits use them as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .cross_entropy import head_loss


class Linear(nn.Linear):
    """Without first weights: they are set before they are used, and drawing them twice is time that
    a resume pays.
    """

    def __init__(self, inputs: int, outputs: int, *, bias: bool = False) -> None:
        super().__init__(inputs, outputs, bias=bias)

    def reset_parameters(self) -> None:
        """Weights come from elsewhere."""


class RMSNorm(nn.RMSNorm):
    """On the CPU with a backward pass of its own, which takes the weight's gradient as a matrix
    product: torch and its compiler add up columns.
    """

    def forward(self, x: Tensor) -> Tensor:
        plain = (
            x.device.type == "cpu"
            and type(self.weight) is nn.Parameter
            and x.dtype == self.weight.dtype
        )
        if not plain or self.eps is None:
            return super().forward(x)
        normed: Tensor = _RMSNorm.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
        return normed


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(x, weight, inverse)
        return x * inverse * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, inverse = ctx.saved_tensors
        gradient = gradients[0]
        product = gradient * x
        for_weight = inverse.view(1, -1) @ product.flatten(0, -2)
        along = (product * weight).mean(-1, keepdim=True) * inverse.square()
        return (gradient * weight - x * along) * inverse, for_weight[0], None


class PlainLayers:
    """`Layers` on one rank, of plain torch modules."""

    def col(self, inputs: int, outputs: int, *, bias: bool = False) -> nn.Module:
        return Linear(inputs, outputs, bias=bias)

    def row(self, inputs: int, outputs: int) -> nn.Module:
        return Linear(inputs, outputs)

    def emb(self, vocabulary: int, hidden: int) -> nn.Module:
        # Its own first weights would be drawn by code that imports torch's compiler, and are never
        # used.
        return nn.Embedding(vocabulary, hidden, _weight=torch.empty(vocabulary, hidden))

    def norm(self, hidden: int, epsilon: float) -> nn.Module:
        return RMSNorm(hidden, epsilon)

    def loss(self, head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
        weight = head.weight
        assert isinstance(weight, torch.Tensor)
        return head_loss(hidden.flatten(0, 1), weight, targets.flatten())
