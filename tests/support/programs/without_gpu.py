"""Runs a program that is written for GPUs where there are none: gloo and the CPU in their place.

    without_gpu.py PROGRAM [ARGUMENT...]

Each attempt has random numbers of its own, as it has without a seed; and they are known.
"""

import os
import runpy
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

move, load, parallel = torch.Tensor.to, torch.load, nn.parallel.DistributedDataParallel


def to(value: torch.Tensor, *where: Any, **more: Any) -> torch.Tensor:
    """A number is a GPU's."""
    return value if where and isinstance(where[0], int) else move(value, *where, **more)


torch.cuda.set_device = lambda device: None
torch.Tensor.to = to
nn.Module.to = lambda module, device: module
torch.load = lambda path, map_location: load(path, map_location="cpu")
nn.parallel.DistributedDataParallel = lambda module, device_ids: parallel(module)
start = dist.init_process_group
dist.init_process_group = lambda backend: start("gloo")

torch.manual_seed(int(os.environ["TRAINYARD_ATTEMPT"]))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
