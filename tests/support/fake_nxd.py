"""A small fake of what the nxd backend calls in neuronx-distributed and PyTorch/XLA.

It runs in one process without collectives. Signatures and side effects follow neuronx-distributed
0.18.0 (aws-neuron/neuronx-distributed at fbac349) and torch_xla's ZeroRedundancyOptimizer as far as
the backend depends on them. It stands in where those packages cannot be installed. That the backend
works with it says nothing about Trainium.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn


class World:
    """The place that parallel_state tells, and what was called."""

    def __init__(self, dp: int = 0, dp_size: int = 1, tp: int = 0, tp_size: int = 1) -> None:
        self.dp, self.dp_size, self.tp, self.tp_size = dp, dp_size, tp, tp_size
        self.mark_steps = 0
        self.config: dict[str, Any] | None = None
        self.optimizer: Any = None


def install(patch: pytest.MonkeyPatch, world: World) -> None:
    """Put the fake into sys.modules, and the packages' versions where they are asked for."""
    versions = {
        "neuronx-distributed": "0.18.27753",
        "torch-neuronx": "2.9.0.2.15.32035",
        "libneuronxla": "2.2.12677.0",
    }
    found = importlib.metadata.version
    patch.setattr(importlib.metadata, "version", lambda name: versions.get(name) or found(name))
    layers = _module("neuronx_distributed.parallel_layers", **_layers(world))
    state = _module(
        "neuronx_distributed.parallel_layers.parallel_state",
        get_data_parallel_rank=lambda: world.dp,
        get_data_parallel_size=lambda: world.dp_size,
        get_tensor_model_parallel_rank=lambda: world.tp,
        get_tensor_model_parallel_size=lambda: world.tp_size,
    )
    mappings = _module(
        "neuronx_distributed.parallel_layers.mappings",
        copy_to_tensor_model_parallel_region=lambda input_, process_group=None: input_,
        gather_from_sequence_parallel_region=functools.partial(_gather, world),
    )
    xm = _module(
        "torch_xla.core.xla_model",
        xla_device=lambda: torch.device("cpu"),
        mark_step=lambda: _mark(world),
    )
    nxd = _module("neuronx_distributed", **_trainer(world))
    for module in (
        nxd,
        layers,
        state,
        mappings,
        xm,
        _module("torch_xla"),
        _module("torch_xla.core"),
    ):
        patch.setitem(sys.modules, module.__name__, module)


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(content)
    return module


def _mark(world: World) -> None:
    world.mark_steps += 1


def _gather(
    world: World, input_: Tensor, sequence_dimension: int = 0, to_model_parallel: bool = True
) -> Tensor:
    return torch.cat([input_] * world.tp_size, sequence_dimension)


# -- layers --------------------------------------------------------------------------------------
def _layers(world: World) -> dict[str, Any]:
    """nxd's layers, as classes that know this world."""
    classes = (ColumnParallelLinear, RowParallelLinear, ParallelEmbedding)
    return {
        **{one.__name__: type(one.__name__, (one,), {"world": world}) for one in classes},
        "parallel_cross_entropy": functools.partial(_cross_entropy, world),
    }


class _Parallel(nn.Module):
    world: World

    def __init__(
        self,
        rows: int,
        columns: int,
        sequence_parallel_enabled: bool,
        sequence_dimension: int | None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, columns))
        self.sequence_parallel_enabled = sequence_parallel_enabled
        self.sequence_dimension = sequence_dimension
        self.tensor_model_parallel = True


class ColumnParallelLinear(_Parallel):
    def __init__(
        self,
        input_size: int,
        output_size: int,
        bias: bool = True,
        gather_output: bool = True,
        sequence_parallel_enabled: bool = False,
        sequence_dimension: int | None = None,
    ) -> None:
        assert not bias
        assert not gather_output, "the blocks and the loss work on this rank's part"
        assert sequence_dimension == (1 if sequence_parallel_enabled else None), (
            "nxd takes 0 for None"
        )
        super().__init__(
            output_size // self.world.tp_size,
            input_size,
            sequence_parallel_enabled,
            sequence_dimension,
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.sequence_parallel_enabled:
            x = torch.cat([x] * self.world.tp_size, 1)
        return nn.functional.linear(x, self.weight)


class RowParallelLinear(_Parallel):
    def __init__(
        self,
        input_size: int,
        output_size: int,
        bias: bool = True,
        input_is_parallel: bool = False,
        sequence_parallel_enabled: bool = False,
        sequence_dimension: int | None = None,
    ) -> None:
        assert not bias
        assert input_is_parallel
        super().__init__(
            output_size,
            input_size // self.world.tp_size,
            sequence_parallel_enabled,
            sequence_dimension,
        )

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.linear(x, self.weight)
        if not self.sequence_parallel_enabled:
            return y
        return y.chunk(self.world.tp_size, 1)[self.world.tp]


class ParallelEmbedding(_Parallel):
    def __init__(
        self, num_embeddings: int, embedding_dim: int, sequence_parallel_enabled: bool = False
    ) -> None:
        super().__init__(
            num_embeddings // self.world.tp_size, embedding_dim, sequence_parallel_enabled, None
        )

    def forward(self, tokens: Tensor) -> Tensor:
        y = nn.functional.embedding(tokens % len(self.weight), self.weight)
        if not self.sequence_parallel_enabled:
            return y
        # without a sequence dimension nxd's result is (sequence / tp, batch, hidden)
        return y.transpose(0, 1).chunk(self.world.tp_size, 0)[self.world.tp]


def _cross_entropy(
    world: World, logits: Tensor, target: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """One rank's part of the softmax.

    Like nxd's it views its argument flat, and an unknown target adds no logit.
    """
    assert logits.is_contiguous()
    assert logits.dtype == torch.float32
    first = world.tp * logits.shape[-1]
    here = (target >= first) & (target < first + logits.shape[-1])
    chosen = logits.gather(-1, ((target - first) * here)[..., None])[..., 0] * here
    return logits.logsumexp(-1) - chosen


# -- trainer -------------------------------------------------------------------------------------
class _Zero1(torch.optim.Optimizer):
    """torch_xla's ZeroRedundancyOptimizer of one rank, on chunks that it copied at the start."""

    def __init__(
        self,
        params: Iterable[Any],
        cls: Any,
        world: World,
        max_norm: float | None = None,
        **defaults: Any,
    ) -> None:
        super().__init__(params, defaults)
        self.max_norm = max_norm if max_norm is not None else 1.0
        self.grad_norm: Tensor | None = None
        self._world, self._make = world, lambda groups: cls(groups, **defaults)
        self._shard()

    @property
    def _whole(self) -> list[Tensor]:
        return [one for group in self.param_groups for one in group["params"]]

    def _shard(self) -> None:
        self._shards = [nn.Parameter(_chunk(one.data, self._world).clone()) for one in self._whole]
        left = iter(self._shards)
        self.base = self._make(
            [
                {**group, "params": [next(left) for _ in group["params"]]}
                for group in self.param_groups
            ]
        )

    def step(self, closure: Any = None) -> None:
        params = self._whole
        for param, shard in zip(params, self._shards, strict=True):
            shard.grad = _chunk(param.grad, self._world).clone()
        self.grad_norm = nn.utils.clip_grad_norm_(self._shards, self.max_norm)
        for own, given in zip(self.base.param_groups, self.param_groups, strict=True):
            own["lr"] = given["lr"]
        self.base.step()
        if self._world.dp_size == 1:
            for param, shard in zip(params, self._shards, strict=True):
                param.data.copy_(shard.data)

    def state_dict(self) -> dict[str, Any]:
        shapes = {index: one.shape for index, one in enumerate(self._whole)}
        return {
            **super().state_dict(),
            "base_state": self.base.state_dict()["state"],
            "shape_info": shapes,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        content = dict(state_dict)
        state, shapes = content.pop("base_state"), content.pop("shape_info")
        assert shapes == self.state_dict()["shape_info"]
        super().load_state_dict(content)
        self._shard()
        self.base.load_state_dict({**self.base.state_dict(), "state": state})
        for index, shard in enumerate(self._shards):
            assert state[index]["exp_avg"].shape == shard.shape, (
                "a chunk must be padded as the weights' chunk is"
            )


def _chunk(tensor: Tensor, world: World) -> Tensor:
    missing = -tensor.shape[0] % world.dp_size
    padded = torch.cat((tensor, tensor.new_zeros(missing, *tensor.shape[1:])))
    return padded.chunk(world.dp_size)[world.dp]


class _NxDOptimizer:
    """Without ZeRO-1 it clips itself, by max_grad_norm of the configuration."""

    def __init__(self, optimizer: Any, config: dict[str, Any]) -> None:
        self.optimizer, self.config, self.grad_norm = optimizer, config, None

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    def step(self) -> None:
        options = self.config["optimizer_config"]
        if not options["zero_one_enabled"]:
            params = [one for group in self.param_groups for one in group["params"]]
            self.grad_norm = nn.utils.clip_grad_norm_(params, options["max_grad_norm"])
        self.optimizer.step()
        if options["zero_one_enabled"]:
            self.grad_norm = self.optimizer.grad_norm

    def zero_grad(self, set_to_none: bool = False) -> None:
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> Any:
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: Any) -> None:
        self.optimizer.load_state_dict(state_dict)


def _trainer(world: World) -> dict[str, Any]:
    """nxd's functions for the trainer, which keep what they made in this world."""
    return {
        "neuronx_distributed_config": functools.partial(_config, world),
        "initialize_parallel_model": _model,
        "initialize_parallel_optimizer": functools.partial(_optimizer, world),
    }


def _config(
    world: World,
    tensor_parallel_size: int = 1,
    optimizer_config: dict[str, Any] | None = None,
    sequence_parallel: bool = False,
    mixed_precision_config: dict[str, Any] | None = None,
    lnc_size: int = 1,
) -> dict[str, Any]:
    assert world.config is None, (
        "a second call would make the process groups again, which nxd refuses"
    )
    world.config = {
        "tensor_parallel_size": tensor_parallel_size,
        "optimizer_config": optimizer_config,
        "sequence_parallel": sequence_parallel,
        "mixed_precision_config": mixed_precision_config,
        "lnc_size": lnc_size,
    }
    return world.config


def _model(
    nxd_config: dict[str, Any],
    model_fn: Callable[..., nn.Module],
    include_buffers: bool = False,
    *model_args: Any,
    **model_kwargs: Any,
) -> nn.Module:
    assert include_buffers is False
    model: Any = model_fn(*model_args, **model_kwargs)
    return model  # type: ignore[no-any-return]


def _optimizer(
    world: World,
    nxd_config: dict[str, Any],
    optimizer_class: Any,
    parameters: Any,
    **defaults: Any,
) -> Any:
    zero1 = nxd_config["optimizer_config"]["zero_one_enabled"]
    made = (
        _Zero1(parameters, optimizer_class, world, **defaults)
        if zero1
        else optimizer_class(parameters, **defaults)
    )
    world.optimizer = _NxDOptimizer(made, nxd_config)
    return world.optimizer
