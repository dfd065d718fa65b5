"""Random states in a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from trainyard_trainers.common import seeds


def test_random_states_survive_a_checkpoint(tmp_path: Path) -> None:
    import random

    seeds.seed_rank(1, 2)
    torch.save(seeds.random_state(), tmp_path / "state.pt")
    drawn = (random.random(), torch.rand(3).tolist())
    seeds.restore_random_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert (random.random(), torch.rand(3).tolist()) == drawn
