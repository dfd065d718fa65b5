"""A node's devices as Slurm writes them."""

from __future__ import annotations

import pytest

from trainyard_agent.jobs.gres import every


@pytest.mark.parametrize(
    ("gres", "asked"),
    [
        ("(null)", ""),
        ("", ""),
        ("gpu:8", "gpu:8"),
        ("gpu", "gpu:1"),
        ("gpu:h100:8(S:0-1)", "gpu:8"),
        ("gpu:a100:2(S:0),gpu:h100:6(S:0,1),mps:800", "gpu:8"),
        ("neuron:16,bandwidth:lustre:no_consume:4G", "neuron:16"),
        ("tokens:2K,gpu:0", "tokens:2048"),
    ],
)
def test_what_a_node_has_is_read_as_slurm_writes_it(gres: str, asked: str) -> None:
    assert every([gres]) == asked
