"""AdamW pulls towards zero what decays, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

from trainyard_trainers.parallel import shared_adamw
from trainyard_trainers.parallel.adamw import AdamW
from trainyard_trainers.parallel.backend import OptimizerConfig
from trainyard_trainers.parallel.decay import decays, runs

EMBEDDING = "model.embed_tokens.weight"
NORM = "model.layers.0.self_attn.q_norm.weight"
BIAS = "model.layers.0.self_attn.q_proj.bias"
MATRIX = "model.layers.0.self_attn.q_proj.weight"
NAMES = [EMBEDDING, MATRIX, BIAS, NORM]


def test_kinds_of_weights_are_known_by_their_names() -> None:
    found = {
        kind: [name for name in NAMES if not decays(name, (kind,))]  # type: ignore[arg-type]
        for kind in ("norms", "biases", "embeddings")
    }
    assert found == {"norms": [NORM], "biases": [BIAS], "embeddings": [EMBEDDING]}
    assert all(decays(name, ()) for name in NAMES)
    assert OptimizerConfig().no_decay == ("norms", "biases")


def test_neighbours_that_decay_alike_come_together_and_the_order_stays() -> None:
    assert runs([("a", True), ("b", True), ("c", False), ("d", True)]) == [
        (["a", "b"], True),
        (["c"], False),
        (["d"], True),
    ]


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_all_optimizers_take_the_steps_of_torch_with_such_groups() -> None:
    torch.manual_seed(1)
    shapes = [(7, 5), (33,), (4, 8), (3,)]
    decay = [True, False, True, False]
    options = OptimizerConfig(learning_rate=0.1, weight_decay=0.5, clip=0.0)
    weights = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    plain = [weight.detach().clone() for weight in weights]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in weights]
    shared = shared_adamw.connect(
        given := [nn.Parameter(one.clone()) for one in plain], options, decay
    )
    assert shared is not None
    for weight, value in zip(given, plain, strict=True):
        weight.data.copy_(value)
    ours = AdamW(plain, options, decay)
    groups = [
        {"params": [one], "weight_decay": 0.5 if pulled else 0.0}
        for one, pulled in zip(theirs, decay, strict=True)
    ]
    reference = torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.95), eps=1e-8)
    for _ in range(3):
        gradients = [torch.randn(shape) for shape in shapes]
        for one, other, gradient in zip(theirs, given, gradients, strict=True):
            one.grad = gradient.clone()
            (other * gradient).sum().backward()
        reference.step()
        ours.step([gradient.clone() for gradient in gradients], 0.1)
        shared.update(0.1, 0.0)
    for one, mine, other in zip(theirs, plain, given, strict=True):
        assert torch.allclose(one, mine, atol=1e-6)
        assert torch.allclose(one, other, atol=1e-6)
