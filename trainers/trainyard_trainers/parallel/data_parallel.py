"""Chooses a rank's device and its way to the other ranks, and makes DistributedDataParallel sum
gradients in the same order before and after a resume.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..common.config import ConfigError


def backend() -> str:
    """For `loop.main`: gloo for what lies in host memory, and nccl for what lies on a GPU if the
    node has one. Starts no device.
    """
    return "cpu:gloo,cuda:nccl" if torch.cuda.device_count() else "gloo"


def own_device() -> torch.device:
    """This rank's GPU, chosen by LOCAL_RANK, or the CPU.

    Raises ConfigError when there are more ranks here than GPUs.
    """
    gpus = torch.cuda.device_count()
    if not gpus:
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK") or 0)
    if local_rank >= gpus:
        raise ConfigError(
            f"processes_per_node: local rank {local_rank} finds only {gpus} GPUs here; use at most "
            f"{gpus}"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def size(model: nn.Module) -> str:
    """What a float32 model and AdamW keep on each rank, for people: weights, gradients and two
    moments, four bytes each.
    """
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return (
        f"{parameters:,} parameters; weights, gradients and optimizer state take "
        f"{16 * parameters / 1e6:,.1f} MB a rank"
    )


def wrapped(
    model: nn.Module, device: torch.device, some_loss: Callable[[nn.Module], Tensor]
) -> DistributedDataParallel:
    """The model, on its device, with the gradients of all ranks averaged in each backward pass.

    DDP sorts gradients into other buckets after its first pass, and the floating-point sum of three
    or more ranks depends on a gradient's place in its bucket: a resumed run would differ in the
    last bit. So one pass over `some_loss` of the wrapped model, whose gradients are dropped, comes
    before the first step of every attempt. It draws random numbers: seed them after this.
    """
    parallel = DistributedDataParallel(
        model,
        device_ids=[device.index] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )
    some_loss(parallel).backward()  # type: ignore[no-untyped-call]
    parallel.zero_grad(set_to_none=True)
    return parallel
