"""Random numbers: seeds that differ by rank, states that a checkpoint keeps, and the switch for
deterministic kernels.
"""

from __future__ import annotations

import os
import random

import torch

from trainyard_job.random_state import random_state, restore_random_state

__all__ = ["deterministic", "random_state", "restore_random_state", "seed_rank"]


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
