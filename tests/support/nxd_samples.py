"""Small Llama weights and checkpoints of them, split any way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainyard_trainers.checkpoints.staging import replaced
from trainyard_trainers.llm import config as llm_config
from trainyard_trainers.llm.model import parameter_shapes
from trainyard_trainers.parallel import nxd_layout
from trainyard_trainers.parallel.chunks import chunk
from trainyard_trainers.parallel.partition import tp_dim

TINY = llm_config.ModelConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=64,
    rope_theta=500000.0,
    rms_norm_eps=1e-6,
)


def weights(
    model: llm_config.ModelConfig = TINY, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Random weights, the same each time; norms around 1 so that one that got lost is seen."""
    generator = torch.Generator().manual_seed(7)
    drawn = {
        name: torch.randn(shape, generator=generator)
        for name, shape in parameter_shapes(model).items()
    }
    return {
        name: (1 + 0.1 * value if "norm" in name else 0.1 * value).to(dtype)
        for name, value in drawn.items()
    }


def local(name: str, tensor: Tensor, tp_rank: int, tp_size: int) -> Tensor:
    """The TP-local part."""
    dim = tp_dim(name)
    return tensor if dim is None else tensor.chunk(tp_size, dim)[tp_rank].contiguous()


def adam(shapes: Mapping[str, Tensor], step: int = 3) -> dict[str, dict[str, Tensor]]:
    """Whole optimizer state by name; every element another number."""
    state = {}
    for index, (name, tensor) in enumerate(shapes.items()):
        numbers = (
            torch.arange(tensor.numel(), dtype=torch.float32).view(tensor.shape) + 1000 * index + 1
        )
        state[name] = {
            "step": torch.tensor(float(step)),
            "exp_avg": numbers,
            "exp_avg_sq": -numbers,
        }
    return state


def parts(
    full: Mapping[str, Tensor],
    tp: int,
    dp: int,
    *,
    zero1: bool,
    xser: bool,
    step: int = 3,
    config: Mapping[str, Any] | None = None,
    optimizer: bool = True,
    sharded: bool = False,
) -> Iterator[tuple[str, object]]:
    """The files of all ranks of a job that holds `full`."""
    state = adam(full, step) if optimizer else {}
    for tp_rank in range(tp):
        model = {name: local(name, tensor, tp_rank, tp) for name, tensor in full.items()}
        for dp_rank in range(dp):
            place = nxd_layout.Ranks(dp_rank, dp, tp_rank, tp)
            values = {
                index: _of_rank(place, name, state[name], zero1=zero1)
                for index, name in enumerate(state)
            }
            yield from nxd_layout.iter_files(
                nxd_layout.tag_of(step),
                place,
                model=model
                if dp_rank == 0
                else {name: value.to("meta") for name, value in model.items()},
                optimizer={
                    "state": values,
                    "param_groups": [{"lr": 0.1, "params": list(range(len(full)))}],
                }
                if optimizer
                else None,
                zero1=zero1,
                scheduler={"last_epoch": step},
                user_content={"config": dict(config or {}), "step": step},
                xser=xser,
                pieces={name: chunk(value, dp_rank, dp) for name, value in model.items()}
                if sharded
                else None,
            )


def _of_rank(
    place: nxd_layout.Ranks, name: str, state: Mapping[str, Tensor], *, zero1: bool
) -> dict[str, Tensor]:
    """What the rank at this place holds of the optimizer's state of one weight."""
    ours = {
        key: local(name, value, place.tp_rank, place.tp_size) if value.dim() else value
        for key, value in state.items()
    }
    if not zero1:
        return ours
    return {
        key: nxd_layout.chunk(value, place.dp_rank, place.dp_size) if value.dim() else value
        for key, value in ours.items()
    }


def write(
    directory: Path, full: Mapping[str, Tensor], tp: int = 1, dp: int = 1, **options: Any
) -> nxd_layout.Checkpoint:
    """Write the checkpoint of a whole job and open it."""
    options = {"zero1": False, "xser": False, **options}
    step = options.get("step", 3)
    return nxd_layout.Checkpoint(
        nxd_layout.write(directory, nxd_layout.tag_of(step), parts(full, tp, dp, **options))
    )


def detached(content: object) -> object:
    """Copies of the tensors, as the checkpointer makes them: a view would save all around it."""
    return replaced(content, lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf)
