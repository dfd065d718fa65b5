"""A program whose weights are sharded by FSDP: torch.distributed.checkpoint saves the shards."""

import argparse
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import trainyard_job
from trainyard_job import dcp

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
arguments = parser.parse_args()

kind = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if kind == "cuda" else "gloo")
rank = dist.get_rank()
mesh = init_device_mesh(kind, (dist.get_world_size(),))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1)).to(kind)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

weights, moments = get_state_dict(model, optimizer)
state = {"model": weights, "optimizer": moments}
step = dcp.load(state)
if step:
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
while step < arguments.steps:
    # The batch follows from rank and step alone, so a resumed run sees the same data.
    random = torch.Generator().manual_seed(step * 1000 + rank)
    inputs = torch.randn(32, 8, generator=random).to(kind)
    loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    trainyard_job.report(step, loss=loss)
    if trainyard_job.due(step):
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, step)
    if trainyard_job.should_stop():
        sys.exit(trainyard_job.STOPPED)

whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
if rank == 0:
    torch.save(whole, trainyard_job.output_dir() / "model.pt")
dist.destroy_process_group()
