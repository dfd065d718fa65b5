"""The backend of neuronx-distributed (nxd): AWS's library for Trainium on PyTorch/XLA, up to Neuron
SDK 2.31.

Contract-tested against a small fake of the calls it makes (tests/support/fake_nxd.py), which
follows nxd 0.18.0's source; never run on Trainium. AWS's successor for Trn2 and later, TorchNeuron,
runs the torch backend instead (docs/adr/0014-two-parallel-backends.md).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..checkpoints.checkpointer import Files
from ..common import precompile
from ..common.config import ConfigError
from ..common.packages import PackageMissing
from . import nxd_layout
from .backend import BuildConfig, OptimizerConfig, ParallelConfig, Ranks, Reader, Weights
from .decay import decays, runs
from .partition import tp_dim

#: Where AWS publishes the packages; those of the same names on PyPI are placeholders, which install
#: without a word.
PACKAGE_INDEX = "https://pip.repos.neuron.amazonaws.com"
#: The oldest versions that are not placeholders and have the calls used here.
MINIMUM = {"neuronx-distributed": (0, 15), "torch-neuronx": (2, 5), "libneuronxla": (2, 0)}
#: For init_process_group: small collectives of the loop stay on the CPU.
PROCESS_GROUPS = "cpu:gloo,xla:xla"
#: A gradient norm that no training reaches.
_NO_CLIP = 1e9
_STATE = ("step", "exp_avg", "exp_avg_sq")


def require_packages() -> None:
    """Raises PackageMissing unless AWS's own packages are installed.

    Their versions are looked at before anything is imported: `find_spec` finds the placeholders,
    too.
    """
    for name, minimum in MINIMUM.items():
        wanted = ".".join(map(str, minimum))
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise _missing(f"{name} {wanted} or later is not installed") from None
        numbers = tuple(int(part) for part in found.split("+")[0].split(".")[:2] if part.isdigit())
        if numbers < minimum:
            raise _missing(f"{name} {found} is installed, {wanted} or later is needed")


def _missing(reason: str) -> PackageMissing:
    return PackageMissing(
        f"parallel.backend: nxd needs AWS's packages, and {reason}. Those of these names on PyPI "
        "are empty placeholders: install from "
        f"{PACKAGE_INDEX} with trainers/neuron/requirements-neuron-legacy.txt, or use "
        "--parallel.backend torch"
    )


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _missing(f"{name} cannot be imported: {error}") from error


def process_group_backend() -> str:
    """Make the XLA process groups known to torch, and name what init_process_group is to make."""
    require_packages()
    _imported("torch_xla.distributed.xla_backend")
    return PROCESS_GROUPS


class _Norm(nn.Module):
    """RMSNorm in plain operations, which every version of PyTorch/XLA compiles."""

    def __init__(self, hidden: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return (self.weight * wide).to(x.dtype)


class NxdBackend:
    """`Backend` on neuronx-distributed.

    Weights, optimizer and activations are float32; what the matrix products are in is the
    compiler's.
    """

    name = "nxd"

    def __init__(self, config: ParallelConfig) -> None:
        if config.data == "fsdp":
            raise ConfigError("parallel.data: neuronx-distributed has no fsdp; use ddp or zero1")
        if dist.get_world_size() % config.tp:
            raise ConfigError(
                f"parallel.tp: {config.tp} does not divide the {dist.get_world_size()} ranks"
            )
        require_packages()
        self._nxd = _imported("neuronx_distributed")
        self._layers = _imported("neuronx_distributed.parallel_layers")
        self._xm = _imported("torch_xla.core.xla_model")
        self._zero1 = config.data == "zero1"
        self._sequence = config.sequence and config.tp > 1
        self._config = self._configured(config)
        state = _imported("neuronx_distributed.parallel_layers.parallel_state")
        # asked for, because on trn1 with tp 4 the ranks of a group are not neighbours
        self.ranks = Ranks(
            state.get_data_parallel_rank(),
            state.get_data_parallel_size(),
            state.get_tensor_model_parallel_rank(),
            state.get_tensor_model_parallel_size(),
        )
        self.device: torch.device = self._xm.xla_device()

    def _configured(self, config: ParallelConfig) -> dict[str, Any]:
        """nxd's configuration, which also makes its process groups.

        On Trn2 two physical cores make a logical one (LNC).
        """
        cores = int(os.environ.get("NEURON_LOGICAL_NC_CONFIG") or 1)
        configured: dict[str, Any] = self._nxd.neuronx_distributed_config(
            tensor_parallel_size=config.tp,
            sequence_parallel=self._sequence,
            optimizer_config={
                "zero_one_enabled": self._zero1,
                "grad_clipping": True,
                "max_grad_norm": 1.0,
            },
            mixed_precision_config={
                "use_master_weights": False,
                "use_fp32_grad_acc": False,
                "use_master_weights_in_ckpt": False,
            },
            **({"lnc_size": cores} if cores > 1 else {}),
        )
        return configured

    @property
    def is_compile_only(self) -> bool:
        return precompile.compile_only()

    # -- layers -----------------------------------------------------------------------------------
    @property
    def _split_sequence(self) -> dict[str, Any]:
        return (
            {"sequence_parallel_enabled": True, "sequence_dimension": 1} if self._sequence else {}
        )

    def col(self, inputs: int, outputs: int, *, bias: bool = False) -> nn.Module:
        layer: nn.Module = self._layers.ColumnParallelLinear(
            inputs, outputs, bias=bias, gather_output=False, **self._split_sequence
        )
        return layer

    def row(self, inputs: int, outputs: int) -> nn.Module:
        layer: nn.Module = self._layers.RowParallelLinear(
            inputs, outputs, bias=False, input_is_parallel=True, **self._split_sequence
        )
        return layer

    def emb(self, vocabulary: int, hidden: int) -> nn.Module:
        layer: nn.Module = self._layers.ParallelEmbedding(
            vocabulary, hidden, sequence_parallel_enabled=self._sequence
        )
        if self._sequence:  # its output is (sequence / tp, batch, hidden)
            layer.register_forward_hook(lambda _module, _inputs, output: output.transpose(0, 1))
        return layer

    def norm(self, hidden: int, epsilon: float) -> nn.Module:
        return _Norm(hidden, epsilon)

    def loss(self, head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = (
            self._tied_logits(head, hidden)
            if isinstance(head, self._layers.ParallelEmbedding)
            else head(hidden)
        )
        # nxd subtracts the maximum in place and views the logits flat
        losses: Tensor = self._layers.parallel_cross_entropy(
            logits.float().clone(memory_format=torch.contiguous_format), targets
        )
        return (losses * (targets >= 0)).sum()

    def _tied_logits(self, head: nn.Module, hidden: Tensor) -> Tensor:
        """The embedding as the output layer: what ColumnParallelLinear does before its product, by
        itself.
        """
        mappings = _imported("neuronx_distributed.parallel_layers.mappings")
        if self._sequence:
            hidden = mappings.gather_from_sequence_parallel_region(hidden, sequence_dimension=1)
        else:
            hidden = mappings.copy_to_tensor_model_parallel_region(hidden)
        weight: Any = head.weight
        return nn.functional.linear(hidden, weight)

    # -- the model --------------------------------------------------------------------------------
    def build(
        self, make_model: Callable[[], nn.Module], options: BuildConfig, optimizer: OptimizerConfig
    ) -> nn.Module:
        if options.compile != "none":
            raise ConfigError(
                f"build.compile: {options.compile} is for the torch backend; PyTorch/XLA compiles "
                "whole steps, use none"
            )
        if options.activation_checkpointing:
            raise ConfigError(
                "build.activation_checkpointing: the nxd backend does not have it; set it to false"
            )
        self._set_precision(options.precision)
        self._settings = optimizer
        self._config["optimizer_config"]["max_grad_norm"] = self._clip
        # the third positional parameter is include_buffers; the model's own would come after it
        model: nn.Module = self._nxd.initialize_parallel_model(self._config, make_model, False)
        self._parameters = dict(model.named_parameters())
        if (
            self._sequence
        ):  # each rank saw a part of the sequence, so nxd adds up the gradients of marked weights
            for name, parameter in self._parameters.items():
                if tp_dim(name) is None:
                    setattr(parameter, "sequence_parallel_enabled", True)  # noqa: B010
        return model

    @property
    def _clip(self) -> float:
        """nxd computes the norm only where it clips."""
        return self._settings.clip or _NO_CLIP

    @staticmethod
    def _set_precision(precision: str) -> None:
        """The compiler casts the matrix products of float32 graphs; read when the first graph is
        compiled. A user's own flag stays.
        """
        flags = os.environ.get("NEURON_CC_FLAGS", "")
        if "--auto-cast" not in flags:
            added = (
                "--auto-cast=none"
                if precision == "fp32"
                else "--auto-cast=matmult --auto-cast-type=bf16"
            )
            os.environ["NEURON_CC_FLAGS"] = f"{flags} {added}".strip()

    def forwarding(self, *, last: bool) -> AbstractContextManager[object]:
        del last  # gradients are averaged in `step`
        return contextlib.nullcontext()

    def initialise(self, weights: Weights) -> None:
        for name, parameter in self._parameters.items():
            part = weights(name, self.ranks.tp, self.ranks.tp_size)
            if part.shape != parameter.shape:
                raise ConfigError(
                    f"{name}: the weight found has shape {tuple(part.shape)}, this model's has "
                    f"{tuple(parameter.shape)}"
                )
            parameter.data.copy_(part)
        self._xm.mark_step()
        self._start_optimizer()

    def _start_optimizer(self) -> None:
        """Not before the weights are there: ZeRO-1 copies its chunks of them when it is made.

        Its own `max_norm` has to be given, too: nxd hands max_grad_norm only to optimizers without
        ZeRO-1.
        """
        settings = self._settings
        self._optimizer = self._nxd.initialize_parallel_optimizer(
            self._config,
            torch.optim.AdamW,
            self._groups(),
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
            **({"max_norm": self._clip} if self._zero1 else {}),
        )

    def _groups(self) -> list[dict[str, Any]]:
        """Weights that decay and such that do not, in their order, in which a checkpoint numbers
        them.
        """
        settings = self._settings
        named = (
            (parameter, decays(name, settings.no_decay))
            for name, parameter in self._parameters.items()
        )
        return [
            {"params": alike, "weight_decay": settings.weight_decay if decay else 0.0}
            for alike, decay in runs(named)
        ]

    # -- a step -----------------------------------------------------------------------------------
    def backward(self, loss: Tensor, *, last: bool) -> None:
        loss.backward()  # type: ignore[no-untyped-call]
        if not last:
            self._xm.mark_step()  # every micro-batch is the same graph

    def step(self, learning_rate: float) -> float:
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        norm = self._optimizer.grad_norm
        self._optimizer.zero_grad(set_to_none=True)
        self._xm.mark_step()
        return 0.0 if self.is_compile_only else float(norm)

    def mark_step(self) -> None:
        self._xm.mark_step()

    # -- checkpoints ------------------------------------------------------------------------------
    def restore(self, checkpoint: Reader) -> None:
        same_tp = checkpoint.tp_size == self.ranks.tp_size
        mine = checkpoint.model(self.ranks.tp) if same_tp else {}
        self.initialise(
            lambda name, _tp, _size: (
                mine[name] if same_tp else self._tp_part(name, checkpoint.full(name))
            )
        )
        present = dict(self._optimizer.state_dict())
        present["base_state" if self._zero1 else "state"] = self._restored(checkpoint, same_tp)
        self._optimizer.load_state_dict(present)
        self._xm.mark_step()

    def _tp_part(self, name: str, whole: Tensor) -> Tensor:
        dim = tp_dim(name)
        return whole if dim is None else whole.chunk(self.ranks.tp_size, dim)[self.ranks.tp]

    def _restored(self, checkpoint: Reader, same_tp: bool) -> Mapping[int, Any]:
        """From this rank's own file where the layout is the same, else from the whole tensors."""
        if same_tp and (not self._zero1 or checkpoint.dp_size == self.ranks.dp_size):
            found = checkpoint.optimizer(self.ranks.dp if self._zero1 else 0, self.ranks.tp)
            if ("base_state" in found) == self._zero1:
                own: Mapping[int, Any] = found["base_state" if self._zero1 else "state"]
                return own
        return {
            index: {
                key: self._own_part(name, checkpoint.full_optimizer(name, key)) for key in _STATE
            }
            for index, name in enumerate(self._parameters)
        }

    def _own_part(self, name: str, whole: Tensor) -> Tensor:
        if whole.dim() == 0:
            return whole
        part = self._tp_part(name, whole)
        return nxd_layout.chunk(part, self.ranks.dp, self.ranks.dp_size) if self._zero1 else part

    def files(self, step: int, user_content: Mapping[str, Any]) -> Files:
        found = self._optimizer.state_dict()
        state = nxd_layout.to_cpu(found["base_state" if self._zero1 else "state"])
        return self._files(
            step, user_content, {"state": state, "param_groups": found["param_groups"]}
        )

    def final_files(self, step: int, user_content: Mapping[str, Any]) -> Files:
        return self._files(step, user_content, None)

    def _files(
        self, step: int, user_content: Mapping[str, Any], optimizer: Mapping[str, Any] | None
    ) -> Files:
        """In host memory: another thread than this one should not wait for the device."""
        ranks = self.ranks
        device = "cpu" if ranks.dp == 0 else "meta"
        return nxd_layout.files(
            nxd_layout.tag_of(step),
            nxd_layout.Ranks(ranks.dp, ranks.dp_size, ranks.tp, ranks.tp_size),
            model={
                name: parameter.detach().to(device, copy=True)
                for name, parameter in self._parameters.items()
            },
            optimizer=optimizer,
            zero1=self._zero1,
            scheduler={"last_epoch": step},
            user_content=user_content,
        )
