"""The model that is converted is as large as asked for, and its parts are whole."""

from __future__ import annotations

import torch
from bench.to_hf_memory import model_of, parts

from trainyard_trainers.llm.model import parameter_shapes


def test_the_model_has_at_least_the_size_and_no_layer_too_many() -> None:
    model = model_of(500)
    sizes = {name: torch.Size(shape).numel() for name, shape in parameter_shapes(model).items()}
    layers = 4 * sum(size for name, size in sizes.items() if "layers" in name)
    assert 500e6 <= layers < 500e6 + layers / model.num_hidden_layers + 1


def test_every_rank_writes_its_part() -> None:
    names = [name for name, _ in parts(model_of(1), tp=2, xser=False)]
    assert any("tp_rank_00" in name for name in names)
    assert any("tp_rank_01" in name for name in names)
