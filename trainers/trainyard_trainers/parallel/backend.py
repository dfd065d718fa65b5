"""The protocol between the language model trainer and what runs it in parallel, so that torch and
neuronx-distributed are exchangeable.

A rank has a place in data parallelism (dp) and in tensor parallelism (tp). TP-local means: the part
of a weight that a tp rank holds when only tensor parallelism splits it, along the dimension that
`llm.partition.tp_dim` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import torch
from torch import Tensor, nn

from ..checkpoints.checkpointer import Files
from ..common.bounds import NOT_NEGATIVE, PART, POSITIVE, Bounded, at_least
from ..common.meaning import Meaning
from .decay import Kind


@dataclass(frozen=True)
class ParallelConfig(Bounded):
    """Which backend, on what device, and how many ways. The dp size is what is left: ranks / tp.

    A run may resume with any other of these.
    """

    backend: Annotated[
        Literal["torch", "nxd"], Meaning("nxd: neuronx-distributed, on Trainium", free=True)
    ] = "torch"
    device: Annotated[
        Literal["auto", "cpu", "cuda", "neuron"],
        Meaning("what each rank computes on; auto: a GPU if the node has one", free=True),
    ] = "auto"
    tp: Annotated[
        int,
        at_least(1),
        Meaning(
            "tensor-parallel ranks: so many share each layer; must divide heads, key-value heads, "
            "intermediate size and vocabulary",
            free=True,
        ),
    ] = 1
    data: Annotated[
        Literal["ddp", "zero1", "fsdp"],
        Meaning(
            "what the data-parallel ranks hold. ddp: each holds weights, gradients and optimizer "
            "whole; zero1: the optimizer's state is split over them; fsdp: weights and gradients "
            "are, too",
            free=True,
        ),
    ] = "ddp"
    sequence: Annotated[
        bool,
        Meaning(
            "between the blocks, activations are split along the sequence over the tp ranks",
            free=True,
        ),
    ] = True


@dataclass(frozen=True)
class OptimizerConfig(Bounded):
    """AdamW (Loshchilov and Hutter 2019), after clipping the gradient's global norm."""

    learning_rate: Annotated[float, POSITIVE, Meaning("the highest, after the warm-up")] = 3e-4
    beta1: Annotated[float, PART, Meaning("decay of the gradient's moving mean")] = 0.9
    beta2: Annotated[float, PART, Meaning("decay of the moving mean of its square")] = 0.95
    epsilon: Annotated[float, POSITIVE, Meaning("added to the root of that mean")] = 1e-8
    weight_decay: Annotated[
        float, NOT_NEGATIVE, Meaning("share of a weight that a learning rate of 1 would take away")
    ] = 0.1
    clip: Annotated[
        float,
        NOT_NEGATIVE,
        Meaning("gradients with a larger norm, over all ranks, are scaled down to it; 0: none"),
    ] = 1.0
    no_decay: Annotated[
        tuple[Kind, ...],
        Meaning(
            "weights without decay, with commas between them: norms, biases, embeddings; "
            '"" for none'
        ),
    ] = ("norms", "biases")


@dataclass(frozen=True)
class BuildConfig:
    """How the blocks run."""

    precision: Annotated[
        Literal["fp32", "bf16"],
        Meaning(
            "of the matrix products; weights, optimizer and reductions are float32 in either case"
        ),
    ] = "fp32"
    compile: Annotated[
        str,
        Meaning(
            "a backend of torch.compile for every block (inductor, aot_eager, neuron), or none",
            free=True,
        ),
    ] = "none"
    activation_checkpointing: Annotated[
        bool,
        Meaning(
            "keep each block's input only, and compute the rest again in the backward pass",
            free=True,
        ),
    ] = False


@dataclass(frozen=True)
class Ranks:
    """This rank's place.

    Ask the backend for it: nxd's tensor-parallel groups are not always neighbours, so rank % tp may
    be wrong.
    """

    dp: int = 0
    dp_size: int = 1
    tp: int = 0
    tp_size: int = 1


class Weights(Protocol):
    """Where weights come from: random numbers, a Hugging Face directory, a checkpoint."""

    def __call__(self, name: str, tp: int, tp_size: int) -> Tensor:
        """The TP-local part of the weight of this (Hugging Face) name, on the CPU in any floating
        type. Raises ValueError.
        """


class Reader(Protocol):
    """What `restore` needs of a checkpoint: `nxd_layout.Checkpoint`."""

    @property
    def tp_size(self) -> int:
        """Tensor-parallel ranks of the job that wrote the checkpoint."""

    @property
    def dp_size(self) -> int:
        """Data-parallel ranks of the job that wrote it, at least where each has its own optimizer
        file.
        """

    @property
    def sharded(self) -> bool:
        """Whether each dp rank wrote its chunk of every weight."""

    def piece(self, name: str, dp_rank: int, tp_rank: int) -> Tensor:
        """What one rank of the job that wrote it held of a weight."""

    def model(self, tp_rank: int) -> Mapping[str, Tensor]:
        """TP-local weights by name, as tp rank `tp_rank` of the job that wrote them held them."""

    def optimizer(self, dp_rank: int, tp_rank: int) -> Mapping[str, Any]:
        """The optimizer's file of one rank of the job that wrote it."""

    def full(self, name: str) -> Tensor:
        """A whole weight."""

    def full_optimizer(self, name: str, key: str) -> Tensor:
        """A whole tensor of the optimizer's state (`step`, `exp_avg`, `exp_avg_sq`) of a weight."""


class Layers(Protocol):
    """What a model is made of; all weights lie in `.weight`, shaped (outputs, inputs), and biases
    in `.bias`.
    """

    def col(self, inputs: int, outputs: int, *, bias: bool = False) -> nn.Module:
        """A linear layer whose outputs are split over the tp ranks; with `sequence` it first
        gathers (batch, sequence / tp, inputs).
        """

    def row(self, inputs: int, outputs: int) -> nn.Module:
        """A linear layer whose inputs are split over the tp ranks; its outputs are summed, and with
        `sequence` split along dimension 1.
        """

    def emb(self, vocabulary: int, hidden: int) -> nn.Module:
        """An embedding split by vocabulary; (batch, sequence) gives (batch, sequence [/ tp],
        hidden).
        """

    def norm(self, hidden: int, epsilon: float) -> nn.Module:
        """RMSNorm (Zhang and Sennrich 2019) of the last dimension, computed in float32; its weight
        is the same on all tp ranks.
        """

    def loss(self, head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
        """Sum over this rank's tokens of the cross entropy of `hidden @ head.weight.T`, a scalar;
        targets (batch, sequence) below 0 do not count.

        `head` is made by `col` or, for tied embeddings, by `emb`. All tp ranks get the same value.
        """


class Backend(Layers, Protocol):
    """One rank's model in training.

    Calls in order: build, initialise or restore, then for each step forward, backward, ..., step,
    mark_step.
    """

    name: str
    device: torch.device
    ranks: Ranks

    @property
    def is_compile_only(self) -> bool:
        """Whether this run only collects graphs to compile (neuron_parallel_compile): its results
        mean nothing and must not be saved.
        """

    def build(
        self, make_model: Callable[[], nn.Module], options: BuildConfig, optimizer: OptimizerConfig
    ) -> nn.Module:
        """The model on this rank, to be called in training, and its optimizer. The weights are not
        set yet.

        The model has its blocks in `model.model.layers` and Hugging Face's names for its weights.
        """

    def initialise(self, weights: Weights) -> None:
        """Set the weights; the optimizer starts new."""

    def restore(self, checkpoint: Reader) -> None:
        """Take weights and optimizer of a checkpoint of any tp and dp size."""

    def forwarding(self, *, last: bool) -> AbstractContextManager[object]:
        """In which a micro-batch's forward pass runs: precision, and, unless it is the step's last,
        no averaging over dp.
        """

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add this micro-batch's gradients; with `last` they are averaged over the dp ranks, here
        or in `step`.
        """

    def step(self, learning_rate: float) -> float:
        """Clip, update the weights, clear the gradients.

        Returns the global norm before clipping: every weight counted once, over tp and dp.
        """

    def mark_step(self) -> None:
        """End of a step: lazy devices run their graph."""

    def files(self, step: int, user_content: Mapping[str, Any]) -> Files:
        """This rank's files of a checkpoint `step_<step>/...` in the layout of neuronx-distributed.

        Collective: all ranks call it.
        """

    def final_files(self, step: int, user_content: Mapping[str, Any]) -> Files:
        """The same without the optimizer. Collective."""
