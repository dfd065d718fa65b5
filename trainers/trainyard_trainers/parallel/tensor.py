"""Tensor parallelism with DTensor: which layer of the model is split how, and where activations are
gathered and summed.

With `sequence` the activations between the blocks are split along the sequence (Korthikanti et al.
2022): norms and residuals are computed once over all ranks, and a block's two all-reduces become
reduce-scatter and all-gather.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


def split(model: Any, mesh: DeviceMesh, *, sequence: bool) -> None:
    """Split a `llm.model.Llama` over the mesh, in place."""
    between = Shard(1) if sequence else Replicate()
    plan: dict[str, ParallelStyle] = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
    }
    if model.lm_head is not None:
        plan["lm_head"] = ColwiseParallel()
    if sequence:
        plan["model.norm"] = SequenceParallel()
    of_a_block = _block(sequence)
    if model.model.layers[0].self_attn.q_norm is not None:
        # Each rank has some of the heads, in dimension 2, and all of them have one weight.
        of_a_block |= {
            f"self_attn.{name}": SequenceParallel(sequence_dim=2, use_local_output=True)
            for name in ("q_norm", "k_norm")
        }
    for number in range(len(model.model.layers)):
        plan.update({f"model.layers.{number}.{name}": style for name, style in of_a_block.items()})
    parallelize_module(model, mesh, plan)
    # torch.compile (2.13) does not understand a block's input that is still on its way between the
    # ranks: the backward pass fails, or the embedding's gradient is silently zero. After any
    # operation it is a plain tensor.
    model.model.embed_tokens.register_forward_hook(lambda _module, _inputs, output: output * 1.0)


def _block(sequence: bool) -> dict[str, ParallelStyle]:
    between = Shard(1) if sequence else Replicate()
    column = (
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "mlp.gate_proj",
        "mlp.up_proj",
    )
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in column}
    plan |= {
        name: RowwiseParallel(output_layouts=between)
        for name in ("self_attn.o_proj", "mlp.down_proj")
    }
    # one gather in front of q, k and v, and one in front of gate and up
    plan["self_attn"] = PrepareModuleInput(
        input_layouts=(between, None, None, None),
        desired_input_layouts=(Replicate(), None, None, None),
    )
    plan["mlp"] = PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(Replicate(),))
    if sequence:
        plan |= {
            name: SequenceParallel() for name in ("input_layernorm", "post_attention_layernorm")
        }
    return plan


def gathered(hidden: Tensor, mesh: DeviceMesh) -> Tensor:
    """The whole sequence on every rank, as a plain tensor whose gradients are summed over the
    ranks: each has its part of the vocabulary.
    """
    spread = (
        hidden
        if isinstance(hidden, DTensor)
        else DTensor.from_local(hidden, mesh, [Replicate()], run_check=False)
    )
    return spread.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])


def local(parameter: Tensor) -> Tensor:
    """This rank's part, detached; it shares the parameter's memory."""
    return (parameter.to_local() if isinstance(parameter, DTensor) else parameter).detach()


def local_gradient(parameter: nn.Parameter) -> Tensor:
    """This rank's part of the gradient.

    Norms see a part of the sequence, and their gradients are still to be summed.
    """
    gradient, place = parameter.grad, parameter.data
    assert gradient is not None, "every weight of the model takes part in the loss"
    if isinstance(gradient, DTensor) and isinstance(place, DTensor):
        if gradient.placements != place.placements:
            gradient = gradient.redistribute(placements=place.placements)
        return gradient.to_local()
    return gradient
