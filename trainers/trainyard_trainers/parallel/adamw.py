"""AdamW as torch's fused kernel computes it, without torch.optim: making an optimizer imports
torch's compiler, a second that every resume pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .backend import OptimizerConfig

STATE = ("exp_avg", "exp_avg_sq")


def divisor(norm: float, clip: float) -> float:
    """What to divide gradients of this global norm by, so that it is at most `clip` (0: whatever it
    is).
    """
    return max(1.0, (norm + 1e-6) / clip) if clip else 1.0


def adamw(
    tensors: list[Tensor],
    gradients: list[Tensor],
    moments: list[list[Tensor]],
    steps: list[Tensor],
    config: OptimizerConfig,
    learning_rate: float,
    divided_by: float,
    *,
    decay: bool = True,
) -> None:
    """Update tensors and moments (exp_avg of all, exp_avg_sq of all) in place; `steps` count this
    update already.
    """
    torch._fused_adamw_(
        tensors,
        gradients,
        moments[0],
        moments[1],
        [],
        steps,
        lr=learning_rate,
        beta1=config.beta1,
        beta2=config.beta2,
        weight_decay=config.weight_decay if decay else 0.0,
        eps=config.epsilon,
        amsgrad=False,
        maximize=False,
        grad_scale=None if divided_by == 1.0 else torch.tensor(divided_by, device=steps[0].device),
    )


class AdamW:
    """Updates plain tensors (Loshchilov and Hutter 2019).

    `states[i]` belongs to the i-th tensor: step, exp_avg and exp_avg_sq, as in torch.optim.
    `decays`: which of them decay, all if it is left out.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        config: OptimizerConfig,
        decays: Sequence[bool] | None = None,
    ) -> None:
        self._tensors, self._config = list(tensors), config
        decays = [True] * len(self._tensors) if decays is None else decays
        numbered = list(enumerate(decays))
        self._groups = [
            (chosen, decay)
            for decay in (True, False)
            if (chosen := [index for index, one in numbered if one is decay])
        ]
        self.states: list[dict[str, Tensor]] = []

    def start(self) -> None:
        """State for a first step, unless there is some."""
        if not self.states:
            self.states = [
                {
                    "step": tensor.new_zeros((), dtype=torch.float32),
                    **{key: torch.zeros_like(tensor) for key in STATE},
                }
                for tensor in self._tensors
            ]

    def load(self, states: list[dict[str, Tensor]]) -> None:
        """Take the state of every tensor."""
        self.states = states

    def step(
        self, gradients: Sequence[Tensor], learning_rate: float, divided_by: float = 1.0
    ) -> None:
        """One update with these gradients divided by `divided_by`, which changes them."""
        self.start()
        torch._foreach_add_([state["step"] for state in self.states], 1)
        for chosen, decay in self._groups:
            states = [self.states[index] for index in chosen]
            adamw(
                [self._tensors[index] for index in chosen],
                [gradients[index] for index in chosen],
                [[state[key] for state in states] for key in STATE],
                [state["step"] for state in states],
                self._config,
                learning_rate,
                divided_by,
                decay=decay,
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
