"""The backend of plain torch: DistributedDataParallel, ZeRO-1, FSDP2 and DTensor, on gloo, NCCL or
the TorchNeuron device.

Weights and optimizer state are float32 on every path. With precision bf16 the forward pass runs
under autocast, or, with fsdp, on bfloat16 copies that are made when a block's weights are gathered;
gradients are reduced in float32.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..checkpoints.checkpointer import Files
from ..common.config import ConfigError
from . import nxd_layout, shared_adamw
from .adamw import STATE, AdamW, divisor
from .backend import BuildConfig, OptimizerConfig, ParallelConfig, Ranks, Reader, Weights
from .chunks import Chunks, all_gather, average_whole, chunk, chunk_rows, padded
from .cross_entropy import head_loss
from .decay import decays
from .layers import PlainLayers
from .partition import tp_dim


def device_kind(config: ParallelConfig) -> str:
    """`auto` is the GPU where there is one. Raises ConfigError for a device that is not here."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("parallel.device: there is no CUDA device here; use cpu or auto")
    if config.device == "neuron" and not hasattr(torch, "neuron"):
        raise ConfigError(
            "parallel.device: the device 'neuron' needs torch-neuronx 2.13.3 or later "
            "(TorchNeuron), which is not installed here"
        )
    return (
        config.device if config.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    )


def process_group_backend(config: ParallelConfig) -> str:
    """For init_process_group: small collectives of the loop stay on the CPU."""
    return {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl", "neuron": "cpu:gloo,neuron:neuron"}[
        device_kind(config)
    ]


def _device(config: ParallelConfig) -> torch.device:
    kind = device_kind(config)
    number = int(os.environ.get("LOCAL_RANK") or 0)
    if kind == "cuda":
        torch.cuda.set_device(number)
    return torch.device("cpu") if kind == "cpu" else torch.device(kind, number)


def _check_compiler(name: str) -> None:
    from torch._dynamo import list_backends, lookup_backend
    from torch._dynamo.exc import InvalidBackend

    try:
        lookup_backend(name)
    except InvalidBackend:
        raise ConfigError(
            f"build.compile: torch.compile has no backend '{name}'; use none or one of "
            f"{', '.join(list_backends())}"
        ) from None


class TorchBackend(PlainLayers):
    """`Backend` on torch.distributed.

    Neighbours in rank are neighbours in tensor parallelism: they share a node.
    """

    name = "torch"
    is_compile_only = False

    def __init__(self, config: ParallelConfig) -> None:
        world_size, tp = dist.get_world_size(), config.tp
        if world_size % tp:
            works = ", ".join(str(way) for way in range(1, world_size + 1) if world_size % way == 0)
            raise ConfigError(
                f"parallel.tp: {tp} does not divide the {world_size} ranks; use one of {works}"
            )
        self.config = config
        self.device = _device(config)
        self.ranks = Ranks(dist.get_rank() // tp, world_size // tp, dist.get_rank() % tp, tp)
        self._mesh: Any = None
        self._dp_group: dist.ProcessGroup | None = dist.group.WORLD
        self._tp_group: dist.ProcessGroup | None = None
        if tp > 1 or config.data == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh

            self._mesh = init_device_mesh(
                self.device.type, (self.ranks.dp_size, tp), mesh_dim_names=("dp", "tp")
            )
            self._dp_group = self._mesh.get_group("dp")
            self._tp_group = self._mesh.get_group("tp") if tp > 1 else None

    # -- the model --------------------------------------------------------------------------------
    def loss(self, head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
        weight: Any = head.weight
        if self.ranks.tp_size == 1:
            return super().loss(head, hidden, targets)
        from .tensor import gathered

        hidden = gathered(hidden, self._mesh["tp"])
        return head_loss(hidden.flatten(0, 1), weight.to_local(), targets.flatten(), self._tp_group)

    def build(
        self, make_model: Callable[[], nn.Module], options: BuildConfig, optimizer: OptimizerConfig
    ) -> nn.Module:
        split_later = self.ranks.tp_size > 1 or self.config.data == "fsdp"
        # Where nothing is split, no meta device: its kernels import sympy.
        with torch.device("meta" if split_later else self.device):
            model: Any = make_model()
        if self.ranks.tp_size > 1:
            from .tensor import split

            split(model, self._mesh["tp"], sequence=self.config.sequence)
        if options.compile != "none":
            _check_compiler(options.compile)
            for block in model.model.layers:
                block.forward = torch.compile(block.forward, backend=options.compile)
        if self.config.data == "fsdp":
            self._shard(model, options)
        if split_later:
            model.to_empty(device=self.device)
        self._options, self._clip = options, optimizer.clip
        self._parameters = named = dict(model.named_parameters())
        self._trained = {name: one for name, one in named.items() if one.requires_grad}
        self._own(model, optimizer)
        self._model = model
        # On the CPU the ranks' cores compute or communicate: nothing is gained by doing both at
        # once.
        if (
            self.config.data == "ddp"
            and self.ranks.tp_size == 1
            and self.ranks.dp_size > 1
            and self.device.type != "cpu"
        ):
            # With this option it never sorts its buckets anew, which would change the order of sums
            # after a resume.
            self._model = DistributedDataParallel(
                model, gradient_as_bucket_view=True, init_sync=False, find_unused_parameters=True
            )
        return self._model  # type: ignore[no-any-return]

    def _shard(self, model: Any, options: BuildConfig) -> None:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        # inputs keep their type: the rotary angles must stay float32
        kind = torch.bfloat16 if options.precision == "bf16" else None
        policy = MixedPrecisionPolicy(
            param_dtype=kind, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
        for block in model.model.layers:
            fully_shard(block, mesh=self._mesh["dp"], mp_policy=policy)
        fully_shard(model, mesh=self._mesh["dp"], mp_policy=policy)

    def _local(self, parameter: Tensor) -> Tensor:
        if self._mesh is None:
            return parameter.detach()
        from .tensor import local

        return local(parameter)

    def _own(self, model: Any, optimizer: OptimizerConfig) -> None:
        """What this rank updates: plain tensors that share the weights' memory, so that the
        optimizer knows of no parallelism.
        """
        alike = (
            self.config.data == "ddp"
            and self.ranks.tp_size == 1
            and self.ranks.dp_size > 1
            and self.device.type == "cpu"
        )
        pulled = [decays(name, optimizer.no_decay) for name in self._trained]
        self._shared = (
            shared_adamw.connect(list(self._trained.values()), optimizer, pulled) if alike else None
        )
        if (
            self._shared
            and model.lm_head is not None
            and model.model.embed_tokens.weight.requires_grad
        ):  # only few words' rows get a gradient, which is laid into the shared memory
            model.model.embed_tokens.sparse = True
        held = [self._local(parameter) for parameter in self._trained.values()]
        self._chunks = Chunks(held, self._dp_group) if self.config.data == "zero1" else None
        self._owned = self._chunks.owned if self._chunks else held
        self._optimizer = self._shared or AdamW(self._owned, optimizer, pulled)
        self._learning_rate = optimizer.learning_rate

    @contextlib.contextmanager
    def forwarding(self, *, last: bool) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if self._options.precision == "bf16" and self.config.data != "fsdp":
                stack.enter_context(torch.autocast(self.device.type, torch.bfloat16))
            if isinstance(self._model, DistributedDataParallel) and not last:
                stack.enter_context(self._model.no_sync())
            yield

    # -- weights ----------------------------------------------------------------------------------
    def initialise(self, weights: Weights) -> None:
        self._set(lambda name: self._own_part(weights(name, self.ranks.tp, self.ranks.tp_size)))

    def _own_part(self, whole: Tensor) -> Tensor:
        """Of a TP-local weight."""
        return self._piece(whole) if self.config.data == "fsdp" else whole

    def _set(self, own: Callable[[str], Tensor]) -> None:
        for name, parameter in self._parameters.items():
            part, target = own(name), self._local(parameter)
            if part.shape != target.shape:
                raise ConfigError(
                    f"{name}: the weight found has shape {tuple(part.shape)}, this model's has "
                    f"{tuple(target.shape)}"
                )
            target.copy_(part)

    def _piece(self, tensor: Tensor) -> Tensor:
        return chunk(tensor, self.ranks.dp, self.ranks.dp_size)

    @property
    def _sharded(self) -> bool:
        return self.config.data != "ddp"

    def restore(self, checkpoint: Reader) -> None:
        same = checkpoint.tp_size == self.ranks.tp_size
        same_dp = checkpoint.dp_size == self.ranks.dp_size
        if same and same_dp and checkpoint.sharded and self.config.data == "fsdp":
            self._set(lambda name: checkpoint.piece(name, self.ranks.dp, self.ranks.tp))
        else:
            mine = checkpoint.model(self.ranks.tp) if same else {}
            self.initialise(
                lambda name, _tp, _size: (
                    mine[name] if same else self._tp_part(name, checkpoint.full(name))
                )
            )
        self._restore_optimizer(checkpoint, same)

    def _tp_part(self, name: str, whole: Tensor) -> Tensor:
        dim = tp_dim(name)
        return whole if dim is None else whole.chunk(self.ranks.tp_size, dim)[self.ranks.tp]

    def _restore_optimizer(self, checkpoint: Reader, same_tp: bool) -> None:
        """From this rank's own file where the layout is the same, else from the whole tensors."""
        own: Mapping[int, Any] | None = None
        if same_tp:
            same_dp = self._sharded and checkpoint.dp_size == self.ranks.dp_size
            found = checkpoint.optimizer(self.ranks.dp if same_dp else 0, self.ranks.tp)
            if ("base_state" in found) == self._sharded and (same_dp or not self._sharded):
                own = found["base_state" if self._sharded else "state"]
        states = []
        for index, (name, tensor) in enumerate(zip(self._trained, self._owned, strict=True)):
            state = {} if own is None else own[index]
            restored: dict[str, Tensor] = {}
            for key in STATE:
                part = (
                    state[key]
                    if own is not None
                    else self._tp_part(name, checkpoint.full_optimizer(name, key))
                )
                if own is None and self._sharded:
                    part = self._piece(part)
                restored[key] = part[: tensor.shape[0]].to(
                    tensor.device, tensor.dtype, copy=not self._shared
                )  # which copies it itself
            step = state["step"] if own is not None else checkpoint.full_optimizer(name, "step")
            restored["step"] = torch.as_tensor(step, dtype=torch.float32).to(self.device, copy=True)
            states.append(restored)
        self._optimizer.load(states)

    # -- a step -----------------------------------------------------------------------------------
    def backward(self, loss: Tensor, *, last: bool) -> None:
        if self.config.data == "fsdp":
            self._model.set_requires_gradient_sync(last)
        loss.backward()  # type: ignore[no-untyped-call]

    def step(self, learning_rate: float) -> float:
        self._learning_rate = learning_rate
        if self._shared:
            return self._shared.update(learning_rate, self._clip)
        gradients = self._averaged()
        norm = self._norm(gradients)
        self._optimizer.step(gradients, learning_rate, divisor(norm, self._clip))
        if self._chunks:
            self._chunks.share()
        return norm

    def _averaged(self) -> list[Tensor]:
        """The mean gradients of what this rank owns; the parameters' own are let go."""
        gradients = [self._gradient(parameter) for parameter in self._trained.values()]
        for parameter in self._trained.values():
            parameter.grad = None
        if self._chunks:
            return self._chunks.average(gradients)
        if (
            self.config.data == "ddp"
            and self.ranks.dp_size > 1
            and not isinstance(self._model, DistributedDataParallel)
        ):
            return average_whole(gradients, self._dp_group)
        return gradients

    def _gradient(self, parameter: nn.Parameter) -> Tensor:
        if self._mesh is None:
            assert parameter.grad is not None, "every weight of the model takes part in the loss"
            return parameter.grad
        from .tensor import local_gradient

        return local_gradient(parameter)

    def _norm(self, gradients: list[Tensor]) -> float:
        """Over tp, and over dp where each rank owns a part; what all tp ranks hold alike counts
        once.
        """
        norms = torch.stack(list(torch._foreach_norm(gradients))).double().square()
        once = [1.0 / self.ranks.tp_size if tp_dim(name) is None else 1.0 for name in self._trained]
        total = (norms * torch.tensor(once, dtype=norms.dtype, device=norms.device)).sum()
        if self._sharded:
            dist.all_reduce(total)
        elif self._tp_group is not None:
            dist.all_reduce(total, group=self._tp_group)
        return float(total.sqrt())

    def mark_step(self) -> None:
        """Do nothing: this device is not lazy, so nothing waits to be run."""

    # -- checkpoints ------------------------------------------------------------------------------
    def _weights(self) -> dict[str, Tensor]:
        """TP-local weights that are trained, by name. Adapters that are spread over the ranks are
        collected by dp rank 0, in host memory; the others have shapes only.
        """
        if self.config.data != "fsdp":
            return {name: self._local(parameter) for name, parameter in self._trained.items()}
        found = {}
        for name, parameter in self._trained.items():
            whole = self._gathered(self._local(parameter), self._local_rows(name, parameter))
            found[name] = whole.to("cpu" if self.ranks.dp == 0 else "meta")
        return found

    def _local_rows(self, name: str, parameter: Tensor) -> int:
        """Of a TP-local weight that the dp ranks share."""
        return int(parameter.shape[0]) // (self.ranks.tp_size if tp_dim(name) == 0 else 1)

    def _shapes(self) -> dict[str, Tensor]:
        """TP-local weights without their content."""
        return {
            name: torch.empty(
                (self._local_rows(name, parameter), *self._local(parameter).shape[1:]),
                device="meta",
            )
            for name, parameter in self._trained.items()
        }

    def _gathered(self, piece: Tensor, rows: int) -> Tensor:
        """The TP-local tensor of `rows` rows of which every dp rank has a chunk."""
        own = padded(piece, chunk_rows(rows, self.ranks.dp_size)).contiguous()
        whole = own.new_empty(self.ranks.dp_size * own.shape[0], *own.shape[1:])
        all_gather(whole, own, group=self._dp_group)
        return whole[:rows].clone()

    def files(self, step: int, user_content: Mapping[str, Any]) -> Files:
        return self._files(step, user_content, self._optimizer.state_dict(self._learning_rate))

    def final_files(self, step: int, user_content: Mapping[str, Any]) -> Files:
        return self._files(step, user_content, None)

    def _files(
        self, step: int, user_content: Mapping[str, Any], optimizer: Mapping[str, Any] | None
    ) -> Files:
        place = nxd_layout.Ranks(
            self.ranks.dp, self.ranks.dp_size, self.ranks.tp, self.ranks.tp_size
        )
        # Every rank writes its chunk: one writer would have to collect and write all of them.
        each = self.config.data == "fsdp" and len(self._trained) == len(self._parameters)
        pieces = {name: self._local(one) for name, one in self._trained.items()} if each else None
        return nxd_layout.files(
            nxd_layout.tag_of(step),
            place,
            model=self._shapes() if each else self._weights(),
            pieces=pieces,
            optimizer=optimizer,
            zero1=self._sharded,
            scheduler={"last_epoch": step},
            user_content=user_content,
        )
