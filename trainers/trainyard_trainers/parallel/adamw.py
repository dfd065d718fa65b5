"""AdamW as torch's fused kernel computes it, without torch.optim: making an optimizer imports torch's compiler, a second that every resume pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .backend import OptimizerConfig

STATE = ("exp_avg", "exp_avg_sq")


class AdamW:
    """Updates plain tensors (Loshchilov and Hutter 2019). `states[i]` belongs to the i-th tensor: step, exp_avg and exp_avg_sq, as in torch.optim."""

    def __init__(self, tensors: Sequence[Tensor], config: OptimizerConfig) -> None:
        self._tensors, self._config = list(tensors), config
        self.states: list[dict[str, Tensor]] = []

    def start(self) -> None:
        """State for a first step, unless there is some."""
        if not self.states:
            self.states = [
                {"step": tensor.new_zeros((), dtype=torch.float32), **{key: torch.zeros_like(tensor) for key in STATE}}
                for tensor in self._tensors
            ]

    def step(self, gradients: Sequence[Tensor], learning_rate: float, divisor: float = 1.0) -> None:
        """One update with these gradients divided by `divisor`, which changes them."""
        self.start()
        config = self._config
        steps = [state["step"] for state in self.states]
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            self._tensors,
            list(gradients),
            [state["exp_avg"] for state in self.states],
            [state["exp_avg_sq"] for state in self.states],
            [],
            steps,
            lr=learning_rate,
            beta1=config.beta1,
            beta2=config.beta2,
            weight_decay=config.weight_decay,
            eps=config.epsilon,
            amsgrad=False,
            maximize=False,
            grad_scale=None if divisor == 1.0 else torch.tensor(divisor, device=steps[0].device),
        )

    def state_dict(self, learning_rate: float) -> dict[str, Any]:
        """In torch.optim's form; the tensors are live."""
        self.start()
        config = self._config
        group = {
            "lr": learning_rate,
            "betas": (config.beta1, config.beta2),
            "eps": config.epsilon,
            "weight_decay": config.weight_decay,
            "params": list(range(len(self._tensors))),
        }
        return {"state": dict(enumerate(self.states)), "param_groups": [group]}
