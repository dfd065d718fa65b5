"""Random numbers: seeds that differ by rank, states that a checkpoint keeps, and the switch for
deterministic kernels.
"""

from __future__ import annotations

import os
import random
from typing import Any

import torch


def seed_rank(seed: int, rank: int) -> None:
    """Give this rank a random stream of its own; call it after the weights, which all ranks draw
    alike.
    """
    mixed = seed * 1009 + rank + 1
    random.seed(mixed)
    torch.manual_seed(mixed)


def deterministic(on: bool) -> None:
    """Refuse kernels whose results differ from run to run.

    CUDA needs its variable before the first kernel runs.
    """
    if on:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if (
        on != torch.are_deterministic_algorithms_enabled()
    ):  # setting it, even to what it is, imports torch's whole compiler: seconds
        torch.use_deterministic_algorithms(on)


def random_state() -> dict[str, Any]:
    """The states of the generators that trainers draw from, as tensors and plain values."""
    version, internal, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": [version, list(internal), gauss],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Go on where `random_state` was taken."""
    torch.set_rng_state(state["torch"])
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
