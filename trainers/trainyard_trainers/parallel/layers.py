"""The layers of one process: what tensor parallelism later splits, and what tools use that only compute logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .cross_entropy import head_loss


class Linear(nn.Linear):
    """Without biases and without first weights: they are set before they are used, and drawing them twice is time that a resume pays."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def reset_parameters(self) -> None:
        """Weights come from elsewhere."""


class PlainLayers:
    """`Layers` on one rank, of plain torch modules."""

    def col(self, inputs: int, outputs: int) -> nn.Module:
        return Linear(inputs, outputs)

    def row(self, inputs: int, outputs: int) -> nn.Module:
        return Linear(inputs, outputs)

    def emb(self, vocabulary: int, hidden: int) -> nn.Module:
        # Its own first weights would be drawn by code that imports torch's compiler, and are never used.
        return nn.Embedding(vocabulary, hidden, _weight=torch.empty(vocabulary, hidden))

    def norm(self, hidden: int, epsilon: float) -> nn.Module:
        return nn.RMSNorm(hidden, epsilon)

    def loss(self, head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
        weight = head.weight
        assert isinstance(weight, torch.Tensor)
        return head_loss(hidden.flatten(0, 1), weight, targets.flatten())
