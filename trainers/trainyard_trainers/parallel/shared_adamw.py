"""One copy of the weights and of AdamW's state for all ranks of a node, in memory that they share:
each rank updates one slice of it.

Over sockets the gradients would be copied several times more, and with a copy of their own all
ranks would compute the same update. A rank's gradients lie in a row of their own; in `update` it
takes the mean of one slice of all rows, and updates this slice of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from . import node_memory
from .adamw import STATE, AdamW, adamw, divisor
from .backend import OptimizerConfig
from .decay import runs

#: Numbers of a cache line: every weight and every slice begins at one.
_LINE = 16
#: Numbers that are added up at once: they stay in a core's cache.
_AT_ONCE = 1 << 16


def connect(
    parameters: Sequence[nn.Parameter],
    config: OptimizerConfig,
    decays: Sequence[bool] | None = None,
) -> SharedAdamW | None:
    """For float32 weights on the CPU, whose contents are lost; None where the ranks cannot share
    memory. Collective.
    """
    width = sum(_lines(parameter.numel()) for parameter in parameters)
    rows = node_memory.rows(
        1 + len(STATE) + dist.get_world_size(), _lines(width, dist.get_world_size())
    )
    return None if rows is None else SharedAdamW(parameters, rows, config, decays)


def _lines(numbers: int, shares: int = 1) -> int:
    """As many or a few more, so that each of so many shares is a number of whole cache lines."""
    return -(-numbers // (_LINE * shares)) * _LINE * shares


class SharedAdamW(AdamW):
    """In `rows` (3 + ranks, numbers) that the ranks share: weights, the two moments, and the
    gradients of every rank.

    No rank changes what another one may be reading: all of them have passed the backward pass, and
    what they stage for a checkpoint, before the first updates its slice, and no rank goes on before
    the last has updated its own.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        rows: Tensor,
        config: OptimizerConfig,
        decays: Sequence[bool] | None = None,
    ) -> None:
        self._parameters, self._size = list(parameters), dist.get_world_size()
        for parameter, weight in zip(self._parameters, self._views(rows[0]), strict=True):
            parameter.data = weight
        super().__init__([parameter.detach() for parameter in self._parameters], config)
        moments = zip(*(self._views(row) for row in rows[1 : 1 + len(STATE)]), strict=True)
        self.states = [
            {"step": torch.zeros(()), **dict(zip(STATE, views, strict=True))} for views in moments
        ]
        own = self._views(rows[1 + len(STATE) + dist.get_rank()])
        for parameter, place in zip(self._parameters, own, strict=True):
            hook = partial(_lay_down, place)
            parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        share = torch.chunk(rows, self._size, dim=1)[dist.get_rank()]
        self._weights, self._moments = share[0], share[1 : 1 + len(STATE)]
        gradients = share[1 + len(STATE) :]
        self._gradient = gradients[dist.get_rank()]
        self._spans = self._own_spans(decays or [True] * len(self._parameters))
        self._parts = list(
            zip(
                *(torch.split(row, _AT_ONCE) for row in (self._gradient, *_others(gradients))),
                strict=True,
            )
        )

    def _views(self, row: Tensor) -> list[Tensor]:
        counts = [_lines(parameter.numel()) for parameter in self._parameters]
        parts = torch.split(row[: sum(counts)], counts)
        return [
            part[: parameter.numel()].view_as(parameter)
            for part, parameter in zip(parts, self._parameters, strict=True)
        ]

    def _own_spans(self, decays: Sequence[bool]) -> dict[bool, list[slice]]:
        """The parts of this rank's slice that decay, and those that do not.

        What fills up the row behind the last weight goes with it.
        """
        width = len(self._weights)
        first, start = dist.get_rank() * width, 0
        spans: dict[bool, list[slice]] = {True: [], False: []}
        counts = [_lines(parameter.numel()) for parameter in self._parameters]
        counts[-1] += self._size * width - sum(counts)
        for group, decay in runs(zip(counts, decays, strict=True)):
            end = start + sum(group)
            part = slice(max(start - first, 0), min(end - first, width))
            if part.start < part.stop:
                spans[decay].append(part)
            start = end
        return spans

    def load(self, states: list[dict[str, Tensor]]) -> None:
        """Every rank loads the same, so that none has to wait for another."""
        for own, state in zip(self.states, states, strict=True):
            for key, tensor in own.items():
                tensor.copy_(state[key])

    def update(self, learning_rate: float, clip: float) -> float:
        """One update with the mean of what the ranks' backward passes left in `grad`, whose norm is
        clipped. Returns the norm before. Collective.
        """
        for parameter in self._parameters:
            assert parameter.grad is not None, "every weight of the model takes part in the loss"
            parameter.grad = None  # it stays in the row
        dist.barrier()
        square = torch.tensor([sum(map(self._average, self._parts))], dtype=torch.float64)
        dist.all_reduce(square)
        norm = float(square.sqrt())
        steps = [state["step"] for state in self.states]
        torch._foreach_add_(steps, 1)
        for decay, spans in self._spans.items():
            if spans:
                adamw(
                    [self._weights[span] for span in spans],
                    [self._gradient[span] for span in spans],
                    [[moment[span] for span in spans] for moment in self._moments],
                    steps[:1] * len(spans),
                    self._config,
                    learning_rate,
                    divisor(norm, clip),
                    decay=decay,
                )
        dist.barrier()
        return norm

    def _average(self, parts: tuple[Tensor, ...]) -> float:
        """Make the first part the mean of all; its squared norm."""
        own, *others = parts
        for other in others:
            own.add_(other)
        own.div_(self._size)
        return float(torch.linalg.vector_norm(own)) ** 2


def _others(rows: Tensor) -> list[Tensor]:
    return [row for rank, row in enumerate(rows) if rank != dist.get_rank()]


def _lay_down(place: Tensor, parameter: Any) -> None:
    """Right after a gradient is computed it is still in a cache.

    The step's next micro-batches are added to it where it lies.
    """
    if parameter.grad is not place:
        parameter.grad = (
            place.zero_().add_(parameter.grad)
            if parameter.grad.is_sparse
            else place.copy_(parameter.grad)
        )
